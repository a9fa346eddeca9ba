package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestSecretsComeFromFiles(t *testing.T) {
	e := environ("INTERNAL_SECRET_FILE="+file(t, strong+"x,"+strong+"y\n"), "MYSQL_DSN_FILE="+file(t, "root:hush@tcp(db:3306)/x"),
		"PATH_KEYS_FILE="+file(t, "one,two\n"), "AUTH_HS256_SECRET_FILE=")
	delete(e, "MYSQL_DSN")
	var c config
	require.NoError(t, Load(&c, e))
	require.Equal(t, []string{strong + "x", strong + "y"}, c.Internal.Secrets)
	require.Equal(t, "root:hush@tcp(db:3306)/x", c.MySQL.DSN.AtStart())
	require.Equal(t, []string{"one", "two"}, c.PathKeys)
	require.Equal(t, []string{DevelopmentAuthSecret}, c.HS256Secrets)
}

func TestAFileOfADSNIsReadAgain(t *testing.T) {
	path := file(t, "one:hush@tcp(db:3306)/x")
	e := environ("MYSQL_DSN_FILE=" + path)
	delete(e, "MYSQL_DSN")
	var c config
	require.NoError(t, Load(&c, e))
	require.NoError(t, os.WriteFile(path, []byte("two:hush@tcp(db:3306)/x\n"), 0o600))
	dsn, err := c.MySQL.DSN.Read()
	require.NoError(t, err)
	require.Equal(t, "two:hush@tcp(db:3306)/x", dsn)
	require.NoError(t, os.Remove(path))
	_, err = c.MySQL.DSN.Read()
	require.ErrorContains(t, err, "MYSQL_DSN_FILE names a file that cannot be read")

	var plain config
	require.NoError(t, Load(&plain, environ()))
	dsn, err = plain.MySQL.DSN.Read()
	require.NoError(t, err)
	require.Equal(t, plain.MySQL.DSN.AtStart(), dsn)
}

func TestOnlySecretsComeFromFiles(t *testing.T) {
	var c config
	require.NoError(t, Load(&c, environ("GRACE_FILE="+file(t, "9s"), "MUST_FILE=/nowhere")))
	require.NotEqual(t, "9s", c.Grace.String())
}

func TestWrongSecretFiles(t *testing.T) {
	for name, c := range map[string]struct {
		environ  map[string]string
		variable string
		says     string
	}{
		"both":          {environ("INTERNAL_SECRET=x", "INTERNAL_SECRET_FILE="+file(t, strong)), "INTERNAL_SECRET", "and INTERNAL_SECRET_FILE are both set"},
		"both, a DSN":   {environ("MYSQL_DSN_FILE=" + file(t, "x")), "MYSQL_DSN", "and MYSQL_DSN_FILE are both set"},
		"missing":       {environ("INTERNAL_SECRET_FILE=/nowhere/at/all"), "INTERNAL_SECRET_FILE", "cannot be read: open /nowhere/at/all"},
		"a directory":   {environ("PATH_KEYS_FILE=" + t.TempDir()), "PATH_KEYS_FILE", "cannot be read"},
		"empty":         {environ("AUTH_HS256_SECRET_FILE=" + file(t, "")), "AUTH_HS256_SECRET_FILE", "names a file that is empty"},
		"a line alone":  {environ("AUTH_HS256_SECRET_FILE=" + file(t, "\n")), "AUTH_HS256_SECRET_FILE", "is empty"},
		"two lines":     {environ("INTERNAL_SECRET_FILE=" + file(t, strong+"\n\n")), "INTERNAL_SECRET", "blank"},
		"too long":      {environ("PATH_KEYS_FILE=" + file(t, strings.Repeat("x", maxSecretFile+1))), "PATH_KEYS_FILE", "more than 65536 bytes"},
		"wrong content": {production("INTERNAL_SECRET=", "INTERNAL_SECRET_FILE="+file(t, "short")), "INTERNAL_SECRET", "at least 32"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Load(new(config), c.environ)
			var wrong *Error
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, c.variable, wrong.Variable)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), strong)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestEqualSecretsForTwoPurposes(t *testing.T) {
	const other = strong + "x" // the INTERNAL_SECRET of production()
	for name, c := range map[string]struct {
		environ map[string]string
		says    string
	}{
		"two":                   {production("AUTH_HS256_SECRET=" + other), "INTERNAL_SECRET holds a secret that AUTH_HS256_SECRET holds too"},
		"the old of one":        {production("PATH_KEYS=" + strong + "p," + other), "PATH_KEYS holds a secret that INTERNAL_SECRET holds too"},
		"the old of both":       {production("AUTH_HS256_SECRET="+strong+"1,"+strong, "INTERNAL_SECRET="+strong+"2,"+strong), "INTERNAL_SECRET holds a secret that AUTH_HS256_SECRET"},
		"from a file":           {production("PATH_KEYS_FILE=" + file(t, other+"\n")), "PATH_KEYS holds a secret that INTERNAL_SECRET holds too"},
		"a list and one string": {production("MYSQL_DSN=" + other), "INTERNAL_SECRET holds a secret that MYSQL_DSN holds too"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Load(new(config), c.environ)
			var wrong *Error
			require.ErrorAs(t, err, &wrong)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), strong)
			development := c.environ
			development["APP_ENV"] = Development
			require.NoError(t, Load(new(config), development))
		})
	}
	require.NoError(t, Load(new(config), production("PATH_KEYS="+strong+"p,"+strong+"p")), "one purpose")
}

// A password that comes from a file is read again, and may be that of another back end.
func TestPasswords(t *testing.T) {
	path := file(t, "one\n")
	var c config
	require.NoError(t, Load(&c, production("REDIS_USERNAME=gate", "REDIS_PASSWORD_FILE="+path, "REDIS_MODE=sentinel",
		"REDIS_SENTINEL_MASTER=gate", "REDIS_SENTINEL_PASSWORD=one")))
	read := func(want string) {
		t.Helper()
		got, err := c.Redis.Password.Read()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	read("one")
	require.NoError(t, os.WriteFile(path, []byte("two"), 0o600))
	read("two")
	require.Equal(t, "one", c.Redis.Password.AtStart())
	require.NoError(t, os.Remove(path))
	_, err := c.Redis.Password.Read()
	var wrong *Error
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "REDIS_PASSWORD_FILE", wrong.Variable)
	for _, a := range Describe(&c) {
		require.NotContains(t, a.Value.String(), "one", a.Key)
		if a.Key == "REDIS_PASSWORD" {
			require.Equal(t, "(hidden)", a.Value.String())
		}
	}
	fixed, err := c.Redis.SentinelPassword.Read()
	require.NoError(t, err)
	require.Equal(t, "one", fixed)
	require.False(t, Credential{}.IsSet())
}

func TestCheckSentinels(t *testing.T) {
	sentinel, single := Redis{Mode: RedisSentinel, SentinelPassword: NewCredential("x")}, Redis{SentinelPassword: NewCredential("x")}
	require.NoError(t, CheckSentinels(sentinel, single))
	require.NoError(t, CheckSentinels(single, sentinel))
	require.NoError(t, CheckSentinels(Redis{}, Redis{}))
	require.EqualError(t, CheckSentinels(single, single),
		"REDIS_SENTINEL_PASSWORD needs REDIS_MODE=sentinel or LIMIT_REDIS_MODE=sentinel")
}

func TestACredentialIsHiddenInOutput(t *testing.T) {
	c := Redis{Password: NewCredential("hush")}
	encoded, err := json.Marshal(c)
	require.NoError(t, err)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "password", c.Password, "redis", c)
	for _, out := range []string{fmt.Sprintf("%v %+v %#v %s", c.Password, c, c, c.Password), string(encoded), log.String()} {
		require.NotContains(t, out, "hush")
		require.Contains(t, out, "(hidden)")
	}
	require.Empty(t, Credential{}.String())
}

func TestCredentialsNeedTLSInProduction(t *testing.T) {
	password := NewCredential("x")
	far, near := []string{"127.0.0.1:6379", "redis.data:6379"}, []string{"127.0.0.1:6379", "localhost:6379"}
	require.EqualError(t, CheckEncrypted("LIMIT_", Redis{Addrs: far, Password: password}, true), "REDIS_TLS must be true with "+
		"LIMIT_REDIS_PASSWORD and APP_ENV=production: the password would go to redis.data:6379 in plain text")
	require.ErrorContains(t, CheckEncrypted("", Redis{Addrs: far, Mode: RedisSentinel, SentinelPassword: password}, true),
		"REDIS_TLS must be true with REDIS_SENTINEL_PASSWORD")
	require.NoError(t, CheckEncrypted("", Redis{Addrs: far, Password: password, TLS: true}, true))
	require.NoError(t, CheckEncrypted("", Redis{Addrs: near, Password: password}, true))
	require.NoError(t, CheckEncrypted("", Redis{Addrs: far, Password: password}, false))
	require.NoError(t, CheckEncrypted("", Redis{Addrs: far}, true))
}
