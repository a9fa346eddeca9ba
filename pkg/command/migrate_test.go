package command

import (
	"context"
	"log/slog"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/settings"
)

func TestADSNThatTheDriverDoesNotTakeIsAWrongSetting(t *testing.T) {
	for dsn, says := range map[string]string{
		"root:hush":                    "is malformed",
		"root:hush@tcp(db:3306)":       "is malformed",
		"root:hush@tcp(db:3306)/":      "names no database",
		"root:hush@tcp(db:3306)/?a=b":  "names no database",
		"root:hush@tcp(db:3306)/x?a=%": "is malformed",
		"sqlite:":                      "names no file",
	} {
		t.Setenv("MYSQL_DSN", dsn)
		err := Migrate(fstest.MapFS{})(context.Background(), slog.New(slog.DiscardHandler), true)
		var wrong *settings.Error
		require.ErrorAs(t, err, &wrong, dsn)
		require.Equal(t, "MYSQL_DSN", wrong.Variable)
		require.Contains(t, err.Error(), says)
		require.NotContains(t, err.Error(), "hush")
	}
	for _, dsn := range []string{"root:hush@tcp(db:3306)/flashsale", "unix(/run/db.sock)/x", "sqlite:/tmp/x.db"} {
		require.NoError(t, CheckDSN(settings.MySQL{DSN: dsn}))
	}
}
