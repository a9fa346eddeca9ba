package command

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
)

// unused fails instead of applying migrations.
func unused(context.Context, *gorm.DB, *slog.Logger) error { return errors.New("not expected") }

func TestADSNThatTheDriverDoesNotTakeIsAWrongSetting(t *testing.T) {
	for dsn, want := range map[string]string{
		"root:hush":                    "is malformed",
		"root:hush@tcp(db:3306)":       "is malformed",
		"root:hush@tcp(db:3306)/":      "names no database",
		"root:hush@tcp(db:3306)/?a=b":  "names no database",
		"root:hush@tcp(db:3306)/x?a=%": "is malformed",
		"sqlite:":                      "names no file",
	} {
		t.Setenv("MYSQL_DSN", dsn)
		err := Migrate(fstest.MapFS{}, unused)(context.Background(), slog.New(slog.DiscardHandler), Migration{Up: true})
		var wrong *settings.Error
		require.ErrorAs(t, err, &wrong, dsn)
		require.Equal(t, "MYSQL_DSN", wrong.Variable)
		require.Contains(t, err.Error(), want)
		require.NotContains(t, err.Error(), "hush")
	}
	for _, dsn := range []string{"root:hush@tcp(db:3306)/flashsale", "unix(/run/db.sock)/x", "sqlite:/tmp/x.db"} {
		require.NoError(t, CheckDSN(settings.MySQL{DSN: settings.NewCredential(dsn)}, false))
	}
}

func TestProductionVerifiesTheServerOfTheDatabase(t *testing.T) {
	for dsn, verifies := range map[string]bool{
		"root:hush@tcp(db:3306)/x":                                        false,
		"root:hush@tcp(127.0.0.1:3306)/x":                                 false,
		"root:hush@tcp(db:3306)/x?tls=false":                              false,
		"root:hush@tcp(db:3306)/x?tls=skip-verify":                        false,
		"root:hush@tcp(db:3306)/x?tls=preferred":                          false,
		"root:hush@tcp(db:3306)/x?tls=true&allowFallbackToPlaintext=true": false,
		"root:hush@tcp(db:3306)/x?tls=true":                               true,
		"root@unix(/run/db.sock)/x":                                       true,
	} {
		err := CheckDSN(settings.MySQL{DSN: settings.NewCredential(dsn)}, true)
		if verifies {
			require.NoError(t, err, dsn)
			continue
		}
		require.ErrorContains(t, err, "MYSQL_DSN must have tls=true with APP_ENV=production", dsn)
		require.NotContains(t, err.Error(), "hush")
		require.NoError(t, CheckDSN(settings.MySQL{DSN: settings.NewCredential(dsn), TLSMode: "disabled"}, true), dsn)
	}
	require.ErrorContains(t, settings.MySQL{DSN: settings.NewCredential("x"), TLSMode: "true"}.Validate(true), "MYSQL_TLS")
}

// awaited is a log that closes written when it receives the text.
type awaited struct {
	text    string
	once    sync.Once
	written chan struct{}
}

func (a *awaited) Write(p []byte) (int, error) {
	if strings.Contains(string(p), a.text) {
		a.once.Do(func() { close(a.written) })
	}
	return len(p), nil
}

func TestAwaitEndsWhenMigrationsAreApplied(t *testing.T) {
	t.Setenv("MYSQL_DSN", "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	migrations := fstest.MapFS{"migrations/sqlite/00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (id INT);\n")}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waiting := &awaited{text: "not applied yet", written: make(chan struct{})}
	waited := make(chan error, 1)
	go func() { waited <- AwaitMigrations(migrations)(ctx, slog.New(slog.NewTextHandler(waiting, nil))) }()
	select {
	case <-waiting.written:
	case err := <-waited:
		t.Fatalf("AwaitMigrations did not wait: %v", err)
	}
	up := func(ctx context.Context, db *gorm.DB, log *slog.Logger) error {
		return sqldb.Migrate(ctx, db, migrations, log)
	}
	require.NoError(t, Migrate(migrations, up)(ctx, slog.New(slog.DiscardHandler), Migration{Up: true}))
	require.NoError(t, <-waited)
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Setenv("MYSQL_DSN", "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	migrations := fstest.MapFS{"migrations/sqlite/00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (id INT);\n")}}
	require.ErrorIs(t, AwaitMigrations(migrations)(ctx, slog.New(slog.DiscardHandler)), context.Canceled)
}

func TestMigrateWaitsForAnUnreachableDatabase(t *testing.T) {
	t.Setenv("MYSQL_DSN", "root@tcp("+porttest.Refusing(t)+")/x")
	m := Migration{Up: true, Wait: 300 * time.Millisecond}
	err := Migrate(fstest.MapFS{}, unused)(t.Context(), slog.New(slog.DiscardHandler), m)
	require.ErrorContains(t, err, "not reachable within 300ms")
	t.Setenv("MIGRATE_PATIENCE", "300ms")
	err = Migrate(fstest.MapFS{}, unused)(t.Context(), slog.New(slog.DiscardHandler), m)
	require.EqualError(t, err,
		"MIGRATE_PATIENCE is no longer read; remove it and set the flag of the command, such as: migrate up -wait 5m")
}
