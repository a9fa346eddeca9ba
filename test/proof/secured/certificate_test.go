package secured

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/redisconn"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
)

// Back ends that demand a client certificate let a process in that has one. Its files are read at each handshake.
func TestAClientCertificate(t *testing.T) {
	dir := t.TempDir()
	trusted.issue(t, dir)
	files := settings.ClientCertificate{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	require.NoError(t, files.Validate(true))
	s := startWith(t, &tls.Config{MinVersion: tls.VersionTLS12, GetClientCertificate: files.ForHandshake()}, trusted,
		"tls-auth-clients yes\n", users(""))
	d := startDatabase(t)
	d.run(t, "CREATE USER certified@'%' IDENTIFIED BY 'hush' REQUIRE X509; GRANT SELECT ON shop.* TO certified@'%'")
	toRedis := func(c settings.ClientCertificate) error {
		rdb := redisconn.New(redis.UniversalOptions{MaxRetries: -1}, redisconn.To(settings.Redis{
			Addrs: []string{s.addr()}, TLS: true, Username: "gate", Password: settings.NewCredential("gate-password"),
			ClientCertificate: c,
		}))
		defer func() { _ = rdb.Close() }()
		return rdb.Ping(t.Context()).Err()
	}
	toMySQL := func(c settings.ClientCertificate) error {
		db, err := sqldb.Open("certified:hush@tcp("+d.addr+")/shop?tls=true", sqldb.Options{ClientCertificate: c.ForHandshake()})
		require.NoError(t, err)
		defer func() { _ = sqldb.Close(db) }()
		return db.WithContext(t.Context()).Exec("SELECT 1").Error
	}
	require.NoError(t, toRedis(files))
	require.NoError(t, toMySQL(files))
	require.ErrorContains(t, toRedis(settings.ClientCertificate{}), "certificate required")
	require.ErrorContains(t, toMySQL(settings.ClientCertificate{}), "Access denied")

	other, err := newAuthority()
	require.NoError(t, err)
	other.issue(t, dir) // replaces the files
	require.ErrorContains(t, toRedis(files), "remote error: tls: ", "the servers do not trust the new certificate")
	require.Error(t, toMySQL(files))
	trusted.issue(t, dir)
	require.NoError(t, toRedis(files), "the renewed files hold at the next handshake")
	require.NoError(t, toMySQL(files))

	require.NoError(t, os.Remove(files.KeyFile))
	require.ErrorContains(t, toRedis(files), "TLS_KEY_FILE names a file that cannot be read")
	require.ErrorContains(t, toMySQL(files), "TLS_KEY_FILE names a file that cannot be read")
}
