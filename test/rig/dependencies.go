package rig

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver of CREATE DATABASE below
	"github.com/stretchr/testify/require"
)

// DependencySet is a set of real dependencies of one test, which may start and kill them at any time.
type DependencySet struct {
	root   string
	dir    string
	offset int
}

// OwnDependencies prepares a set and starts nothing. offset is added to its ports; sets that run at the same time need
// different offsets.
func OwnDependencies(t testing.TB, offset int) *DependencySet {
	t.Helper()
	s := &DependencySet{root: Root(t), dir: t.TempDir(), offset: offset}
	t.Cleanup(func() { s.Do(t, "wipe") })
	return s
}

// Prepare starts the set and makes what the services of r need in it: databases, topics and tables.
func (s *DependencySet) Prepare(t testing.TB, r *Rig) {
	t.Helper()
	s.Do(t, "up")
	s.MakeDatabases(t)
	r.PrepareBroker(t)
	r.Migrate(t)
}

// Do runs scripts/dev/dependencies on the set: "up", "kill" or "down", and the names of dependencies.
func (s *DependencySet) Do(t testing.TB, verb string, names ...string) {
	t.Helper()
	require.NoError(t, s.Try(verb, names...))
}

// Empty deletes the data of a dependency that does not run.
func (s *DependencySet) Empty(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(s.dir, name)))
}

// Try is Do with an error instead of a failed test, for goroutines.
func (s *DependencySet) Try(verb string, names ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.root, "scripts", "dev", "dependencies"),
		append([]string{verb}, names...)...)
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "MYSQL_DSN", "REDIS_ADDRS", "ROCKETMQ_NAMESRV", "RUN_DIR", "PORT_OFFSET":
		default:
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "RUN_DIR="+s.dir, "PORT_OFFSET="+strconv.Itoa(s.offset))
	// A file, not a pipe: the processes that the script starts keep it open, and Run would wait for them.
	log, err := os.OpenFile(filepath.Join(s.dir, "dependencies.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		output, _ := os.ReadFile(log.Name())
		return fmt.Errorf("scripts/dev/dependencies %s %v: %w\n%s", verb, names, err, output)
	}
	return nil
}

// Option makes a rig use the set.
func (s *DependencySet) Option() Option {
	at := "root@tcp(" + s.address(13306) + ")/"
	return On(s.address(16379), s.address(19876), at+"flashsale_order", at+"flashsale_inventory")
}

// MakeDatabases creates the databases, empty.
func (s *DependencySet) MakeDatabases(t testing.TB) {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+s.address(13306)+")/")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for _, name := range []string{"flashsale_order", "flashsale_inventory"} {
		_, err := db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS "+name+" CHARACTER SET utf8mb4")
		require.NoError(t, err)
	}
}

func (s *DependencySet) address(port int) string { return "127.0.0.1:" + strconv.Itoa(port+s.offset) }
