package secured

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
)

// database is a MariaDB that accepts its user with TLS only.
type database struct {
	addr string
	root *sql.DB
}

func startDatabase(t *testing.T) *database {
	t.Helper()
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	install := exec.Command("mariadb-install-db", "--no-defaults", "--datadir="+data, "--user=root", "--skip-test-db",
		"--auth-root-authentication-method=normal")
	out, err := install.CombinedOutput()
	require.NoError(t, err, "%s", out)
	trusted.issue(t, dir)
	port, log := freePort(t), &bytes.Buffer{}
	socket := filepath.Join(dir, "sock")
	cmd := exec.Command("mariadbd", "--no-defaults", "--datadir="+data, "--tmpdir="+dir, "--user=root", "--socket="+socket,
		"--bind-address="+host, "--port="+strconv.Itoa(port), "--skip-name-resolve", "--performance-schema=OFF",
		"--skip-log-bin", "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=64M", "--require-secure-transport=ON",
		"--thread-handling=pool-of-threads", "--max-connections=500", "--default-time-zone=+00:00",
		"--ssl-ca="+dir+"/ca.pem", "--ssl-cert="+dir+"/cert.pem", "--ssl-key="+dir+"/key.pem")
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("mariadbd: %s", log)
		}
	})
	root, err := sql.Open("mysql", "root@unix("+socket+")/?multiStatements=true")
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	require.Eventually(t, func() bool { return root.PingContext(t.Context()) == nil }, patience, 50*time.Millisecond)
	d := &database{net.JoinHostPort(host, strconv.Itoa(port)), root}
	d.run(t, "CREATE DATABASE shop; CREATE TABLE shop.sold (id BIGINT PRIMARY KEY);"+
		"CREATE USER shop@'%' IDENTIFIED BY 'hush' REQUIRE SSL; GRANT SELECT, INSERT ON shop.* TO shop@'%'")
	return d
}

func (d *database) run(t *testing.T, statements string) {
	t.Helper()
	_, err := d.root.ExecContext(t.Context(), statements)
	require.NoError(t, err)
}

// createUser creates a user of a service's database, which it creates too if necessary, and returns its DSN.
func (d *database) createUser(t *testing.T, service, name string) (dsn string) {
	t.Helper()
	d.run(t, fmt.Sprintf("CREATE DATABASE IF NOT EXISTS flashsale_%[1]s CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;"+
		"CREATE USER '%[2]s'@'%%' IDENTIFIED BY 'hush' REQUIRE SSL; GRANT ALL ON flashsale_%[1]s.* TO '%[2]s'@'%%'", service, name))
	return name + ":hush@tcp(" + d.addr + ")/flashsale_" + service + "?tls=true"
}

// connections returns how many connections the server has accepted so far, and how many of these have TLS.
func (d *database) connections(t *testing.T) (all, encrypted int64) {
	t.Helper()
	for name, count := range map[string]*int64{"Connections": &all, "Ssl_finished_accepts": &encrypted} {
		require.NoError(t, d.root.QueryRowContext(t.Context(), "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS "+
			"WHERE VARIABLE_NAME = '"+name+"'").Scan(count))
	}
	return all, encrypted
}

// address is one address that leads to a database, and later to another one.
type address struct {
	net.Listener
	to atomic.Pointer[database]
}

func addressOf(t *testing.T, d *database) *address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a := &address{Listener: l}
	a.to.Store(d)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", a.to.Load().addr)
			if err != nil {
				_ = in.Close()
				continue
			}
			for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
				all.Go(func() {
					_, _ = io.Copy(to, from)
					_ = to.Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return a
}

func open(t *testing.T, dsn string) *gorm.DB {
	t.Helper()
	db, err := sqldb.Open(dsn, sqldb.Options{MaxOpen: 8})
	require.NoError(t, err)
	return db
}

func ping(t *testing.T, dsn string) error {
	t.Helper()
	db := open(t, dsn)
	defer func() { _ = sqldb.Close(db) }()
	return db.WithContext(t.Context()).Exec("SELECT 1").Error
}

// What a wrong login or certificate reports is what an operator reads.
func TestADatabaseIsVerified(t *testing.T) {
	d := startDatabase(t)
	require.NoError(t, ping(t, "shop:hush@tcp("+d.addr+")/shop?tls=true"))
	for dsn, want := range map[string]string{
		"shop:hush@tcp(" + d.addr + ")/shop":           "Access denied",
		"shop:other@tcp(" + d.addr + ")/shop?tls=true": "Access denied",
	} {
		require.ErrorContains(t, ping(t, dsn), want, dsn)
	}
	t.Run("a certificate of another authority", func(t *testing.T) {
		mine := trusted
		other, err := newAuthority()
		require.NoError(t, err)
		trusted = other
		defer func() { trusted = mine }()
		require.ErrorContains(t, ping(t, "shop:hush@tcp("+startDatabase(t).addr+")/shop?tls=true"), "unknown authority")
	})
}

// A primary becomes a replica, and its address leads to the new primary: the pool leaves it at the first write, and
// every commit that was reported is in one of the two.
func TestWritesFollowANewPrimary(t *testing.T) {
	one, two := startDatabase(t), startDatabase(t)
	a := addressOf(t, one)
	db := open(t, "shop:hush@tcp("+a.Addr().String()+")/shop?tls=true")
	ctx, stop := context.WithCancel(t.Context())
	var id, committed, refused atomic.Int64
	var last atomic.Int64 // ms of the latest commit
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				n := id.Add(1)
				err := sqldb.InTx(ctx, db, func(tx *gorm.DB) error {
					return tx.Exec("INSERT INTO sold (id) VALUES (?)", n).Error
				})
				switch {
				case err == nil:
					committed.Add(1)
					last.Store(time.Now().UnixMilli())
				case ctx.Err() == nil && !errors.Is(err, sqldb.ErrCommitUnknown):
					refused.Add(1)
				}
				if err != nil {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	t.Cleanup(func() {
		stop()
		writers.Wait()
		_ = sqldb.Close(db)
	})
	require.Eventually(t, func() bool { return committed.Load() > 100 }, patience, 10*time.Millisecond)
	one.run(t, "SET GLOBAL read_only = 1")
	require.Eventually(t, func() bool { return refused.Load() > 0 }, patience, time.Millisecond, "it refuses writes")
	a.to.Store(two)
	began := time.Now()
	before := committed.Load()
	require.Eventually(t, func() bool { return committed.Load() > before+100 }, 5*time.Second, time.Millisecond)
	t.Logf("100 more commits %s after the address moved", time.Since(began).Round(time.Millisecond))
	stop()
	writers.Wait()
	rows := func(d *database) (n int64) {
		require.NoError(t, d.root.QueryRowContext(context.WithoutCancel(t.Context()), "SELECT COUNT(*) FROM shop.sold").Scan(&n))
		return n
	}
	require.GreaterOrEqual(t, rows(one)+rows(two), committed.Load())
	require.LessOrEqual(t, rows(one)+rows(two)-committed.Load(), int64(4), "at most one unknown outcome of each writer")
}
