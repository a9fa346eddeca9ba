package restore

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// backup is a dump of a database, or of some of its tables.
type backup struct{ dsn, file string }

// dump makes a backup of a database that is in use, or of these tables.
func dump(t *testing.T, dsn string, tables ...string) backup {
	t.Helper()
	cfg, args := connection(t, dsn)
	b := backup{dsn, filepath.Join(t.TempDir(), "dump.sql")}
	out, err := os.Create(b.file)
	require.NoError(t, err)
	defer func() { _ = out.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mariadb-dump",
		append(append(args, "--single-transaction", "--routines", cfg.DBName), tables...)...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	require.NoError(t, cmd.Run(), "mariadb-dump %s", cfg.DBName)
	return b
}

// restore replaces the database by the backup.
func (b backup) restore(t *testing.T) {
	t.Helper()
	cfg, args := connection(t, b.dsn)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	empty := exec.CommandContext(ctx, "mariadb", append(args, "-e",
		"DROP DATABASE "+cfg.DBName+"; CREATE DATABASE "+cfg.DBName+" CHARACTER SET utf8mb4")...)
	output, err := empty.CombinedOutput()
	require.NoError(t, err, "%s", output)
	b.load(t)
}

// load replaces the tables of the backup, and leaves the others.
func (b backup) load(t *testing.T) {
	t.Helper()
	cfg, args := connection(t, b.dsn)
	in, err := os.Open(b.file)
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mariadb", append(args, cfg.DBName)...)
	cmd.Stdin = in
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// connection returns the fields of a DSN, and the arguments of MariaDB's programs.
func connection(t *testing.T, dsn string) (*mysqldriver.Config, []string) {
	t.Helper()
	cfg, err := mysqldriver.ParseDSN(dsn)
	require.NoError(t, err)
	host, port, ok := cutAddress(cfg.Addr)
	require.True(t, ok, "no host:port in the DSN")
	args := []string{"--no-defaults", "--protocol=tcp", "--host=" + host, "--port=" + port, "--user=" + cfg.User}
	if cfg.Passwd != "" {
		t.Setenv("MYSQL_PWD", cfg.Passwd)
	}
	return cfg, args
}
