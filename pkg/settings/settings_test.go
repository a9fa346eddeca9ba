package settings

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type config struct {
	App
	HTTP
	MySQL
	Redis
	RocketMQ
	Auth
	Internal
	Grace    time.Duration `env:"GRACE" envDefault:"3s"`
	Workers  int           `env:"WORKERS" envDefault:"4"`
	Rate     float64       `env:"PATH_RATE" envDefault:"1000"`
	PathKeys []string      `env:"PATH_KEYS" secret:"true"`
	Must     string        `env:"MUST,required"`
}

func (c *config) Validate() error {
	if c.Workers < 1 {
		return Wrong("WORKERS", "is %d and must be at least 1", c.Workers)
	}
	return nil
}

const strong = "0123456789abcdef0123456789abcdef"

func environ(changes ...string) map[string]string {
	m := map[string]string{"MYSQL_DSN": "root:hush@tcp(127.0.0.1:3306)/x", "MUST": "1"}
	for _, c := range changes {
		k, v, _ := strings.Cut(c, "=")
		m[k] = v
	}
	return m
}

func production(changes ...string) map[string]string {
	return environ(append([]string{"APP_ENV=production", "AUTH_HS256_SECRET=" + strong, "INTERNAL_SECRET=" + strong + "x"}, changes...)...)
}

// published has the settings for published keys.
func published(changes ...string) map[string]string {
	return production(append([]string{
		"AUTH_HS256_SECRET=", "AUTH_JWKS_URL=https://idp.example/keys", "AUTH_AUDIENCE=shop",
		"AUTH_ISSUER=https://idp.example/",
	}, changes...)...)
}

func TestLoadDefaults(t *testing.T) {
	var c config
	require.NoError(t, Load(&c, environ()))
	require.False(t, c.Production())
	require.Equal(t, slog.LevelInfo, c.LogLevel)
	require.Equal(t, "127.0.0.1:8080", c.HTTP.Addr)
	require.Equal(t, "127.0.0.1:9080", c.AdminAddr)
	require.Equal(t, []string{"127.0.0.1:6379"}, c.Redis.Addrs)
	require.Equal(t, 3*time.Second, c.Grace)
	require.Equal(t, []string{DevelopmentAuthSecret}, c.HS256Secrets)
	require.Equal(t, []string{DevelopmentInternalSecret}, c.Internal.Secrets)
	require.Equal(t, c.Auth, c.WithDefaults(), "the defaults of the tags and those of an empty Auth are the same")
	require.Equal(t, Auth{
		HS256Secrets: c.HS256Secrets, Session: Session{Secrets: c.Session.Secrets}, Lenient: true,
	}.WithDefaults(), c.Auth)
	require.Equal(t, []string{DevelopmentSessionSecret}, c.Session.Secrets)
}

func TestLoadReads(t *testing.T) {
	c := config{HTTP: HTTP{Addr: "127.0.0.1:8081"}, Grace: time.Minute}
	require.NoError(t, Load(&c, environ("REDIS_ADDRS=a:1,b:2", "LOG_LEVEL=warn", "GRACE=250ms", "AUTH_JWKS_URL=http://idp/keys")))
	require.Equal(t, "127.0.0.1:8081", c.HTTP.Addr, "the value before Load is the default")
	require.Equal(t, []string{"a:1", "b:2"}, c.Redis.Addrs)
	require.Equal(t, slog.LevelWarn, c.LogLevel)
	require.Equal(t, 250*time.Millisecond, c.Grace)
	require.Empty(t, c.HS256Secrets, "no default secret beside a key set")
	c = config{HTTP: HTTP{Addr: "127.0.0.1:8081"}}
	require.NoError(t, Load(&c, environ("HTTP_ADDR=127.0.0.1:1")))
	require.Equal(t, "127.0.0.1:1", c.HTTP.Addr)
}

func TestLoadFromTheProcess(t *testing.T) {
	t.Setenv("MYSQL_DSN", "x")
	t.Setenv("MUST", "from the process")
	var c config
	require.NoError(t, Load(&c, nil))
	require.Equal(t, "from the process", c.Must)
}

func TestProductionIsAccepted(t *testing.T) {
	var c config
	require.NoError(t, Load(&c, production()))
	require.True(t, c.Production())
	require.False(t, c.Lenient)
	require.Empty(t, c.Session.Secrets, "no sessions without a secret")
	c = config{}
	require.NoError(t, Load(&c, published()))
	c = config{}
	require.NoError(t, Load(&c, production("AUTH_HS256_SECRET="+strong+"2,"+strong, "INTERNAL_SECRET="+strong+"3,"+strong+"4")))
	require.Equal(t, []string{strong + "2", strong}, c.HS256Secrets)
	require.Equal(t, []string{strong + "3", strong + "4"}, c.Internal.Secrets)
}

func TestAWrongSettingIsOneSentenceThatNamesIt(t *testing.T) {
	for name, c := range map[string]struct {
		environ  map[string]string
		variable string
		says     string
	}{
		"duration":           {environ("GRACE=5 parsecs"), "GRACE", `GRACE is "5 parsecs", which is not a duration`},
		"duration no unit":   {environ("DRAIN_TIMEOUT=20"), "DRAIN_TIMEOUT", "not a duration"},
		"duration range":     {environ("DRAIN_TIMEOUT=1ms"), "DRAIN_TIMEOUT", "must be 1s to 10m"},
		"int":                {environ("WORKERS=four"), "WORKERS", "not a whole number"},
		"own rule":           {environ("WORKERS=0"), "WORKERS", "at least 1"},
		"float":              {environ("PATH_RATE=fast"), "PATH_RATE", "not a number"},
		"float NaN":          {environ("PATH_RATE=NaN"), "PATH_RATE", `is "NaN", which is not a number`},
		"float infinite":     {environ("PATH_RATE=-Inf"), "PATH_RATE", "not a number"},
		"bool":               {environ("PPROF=maybe"), "PPROF", "true or false"},
		"level":              {environ("LOG_LEVEL=loud"), "LOG_LEVEL", "debug, info"},
		"required":           {map[string]string{"MYSQL_DSN": "x"}, "MUST", "MUST is required and not set"},
		"no DSN":             {map[string]string{"MUST": "x"}, "MYSQL_DSN", "MYSQL_DSN is required and not set"},
		"env":                {environ("APP_ENV=prod"), "APP_ENV", `APP_ENV is "prod"`},
		"address":            {environ("HTTP_ADDR=8080"), "HTTP_ADDR", "not an address"},
		"address port":       {environ("HTTP_ADDR=:70000"), "HTTP_ADDR", "not an address"},
		"admin address":      {environ("ADMIN_ADDR=localhost"), "ADMIN_ADDR", "not an address"},
		"redis address":      {environ("REDIS_ADDRS=a:1,b"), "REDIS_ADDRS", `"b"`},
		"redis db":           {environ("REDIS_DB=-1"), "REDIS_DB", "negative"},
		"redis cluster db":   {environ("REDIS_ADDRS=a:1,b:2", "REDIS_DB=1"), "REDIS_DB", "cluster"},
		"redis mode":         {environ("REDIS_MODE=sentinels"), "REDIS_MODE", `is "sentinels" and must be single, sentinel or cluster`},
		"redis single":       {environ("REDIS_MODE=single", "REDIS_ADDRS=a:1,b:2"), "REDIS_MODE", "several REDIS_ADDRS"},
		"redis one seed, db": {environ("REDIS_MODE=cluster", "REDIS_DB=1"), "REDIS_DB", "must be 0 with REDIS_MODE=cluster"},
		"redis no master":    {environ("REDIS_MODE=sentinel"), "REDIS_SENTINEL_MASTER", "is required with REDIS_MODE=sentinel"},
		"redis master":       {environ("REDIS_SENTINEL_MASTER=m"), "REDIS_SENTINEL_MASTER", "needs REDIS_MODE=sentinel"},
		"redis user":         {environ("REDIS_USERNAME=gate"), "REDIS_USERNAME", "needs REDIS_PASSWORD"},
		"redis password":     {environ("REDIS_PASSWORD=hush "), "REDIS_PASSWORD", "blank"},
		"redis user, blank":  {environ("REDIS_USERNAME= gate", "REDIS_PASSWORD=x"), "REDIS_USERNAME", "blank"},
		"rocketmq user":      {environ("ROCKETMQ_ACCESS_KEY=order"), "ROCKETMQ_ACCESS_KEY", "needs ROCKETMQ_SECRET_KEY"},
		"rocketmq key":       {environ("ROCKETMQ_SECRET_KEY=x"), "ROCKETMQ_SECRET_KEY", "needs ROCKETMQ_ACCESS_KEY"},
		"rocketmq blank":     {environ("ROCKETMQ_ACCESS_KEY=order", "ROCKETMQ_SECRET_KEY=x "), "ROCKETMQ_SECRET_KEY", "blank"},
		"sentinel user":      {environ("REDIS_SENTINEL_USERNAME=gate"), "REDIS_SENTINEL_USERNAME", "needs REDIS_SENTINEL_PASSWORD"},
		"redis server name":  {environ("REDIS_TLS_SERVER_NAME=redis"), "REDIS_TLS_SERVER_NAME", "needs REDIS_TLS=true"},
		"redis tls":          {environ("REDIS_TLS=yes"), "REDIS_TLS", "true or false"},
		"namesrv":            {environ("ROCKETMQ_NAMESRV=:9876"), "ROCKETMQ_NAMESRV", "not an address"},
		"prefix":             {environ("ROCKETMQ_PREFIX=a%b"), "ROCKETMQ_PREFIX", "a-z, A-Z, 0-9"},
		"both keys":          {environ("AUTH_HS256_SECRET=a", "AUTH_JWKS_URL=http://a/"), "AUTH_HS256_SECRET", "exactly one"},
		"jwks url":           {environ("AUTH_JWKS_URL=keys.json"), "AUTH_JWKS_URL", "URL"},
		"dev tokens no key":  {environ("AUTH_JWKS_URL=http://a/", "AUTH_DEV_TOKENS=true"), "AUTH_DEV_TOKENS", "AUTH_HS256_SECRET"},
		"prod no keys":       {production("AUTH_HS256_SECRET="), "AUTH_HS256_SECRET", "neither is set"},
		"prod no internal":   {production("INTERNAL_SECRET="), "INTERNAL_SECRET", "not set"},
		"prod short":         {production("INTERNAL_SECRET=short"), "INTERNAL_SECRET", "at least 32"},
		"prod default":       {production("AUTH_HS256_SECRET=" + DevelopmentAuthSecret), "AUTH_HS256_SECRET", "for development"},
		"prod default 2":     {production("INTERNAL_SECRET=" + DevelopmentInternalSecret), "INTERNAL_SECRET", "for development"},
		"prod one character": {production("INTERNAL_SECRET=" + strings.Repeat("x", 40)), "INTERNAL_SECRET", "repeated"},
		"secret with blank":  {environ("INTERNAL_SECRET= " + strong), "INTERNAL_SECRET", "blank"},
		"secret with line":   {environ("AUTH_HS256_SECRET=" + strong + "\n"), "AUTH_HS256_SECRET", "blank"},
		"prod dev tokens":    {production("AUTH_DEV_TOKENS=true"), "AUTH_DEV_TOKENS", "production"},
		"prod plain jwks":    {published("AUTH_JWKS_URL=http://idp/keys"), "AUTH_JWKS_URL", "https"},
		"prod no audience":   {published("AUTH_AUDIENCE="), "AUTH_AUDIENCE", "is required with AUTH_JWKS_URL"},
		"prod no issuer":     {published("AUTH_ISSUER="), "AUTH_ISSUER", "is required with AUTH_JWKS_URL"},
		"list with empty":    {environ("AUTH_HS256_SECRET=a,"), "AUTH_HS256_SECRET", "empty"},
		"prod short old":     {production("INTERNAL_SECRET=" + strong + "x,old"), "INTERNAL_SECRET", "at least 32"},
		"typ":                {environ("AUTH_TYP=JWT, at+jwt"), "AUTH_TYP", "not a list"},
		"life too short":     {environ("AUTH_MAX_LIFE=1s"), "AUTH_MAX_LIFE", "1m0s to"},
		"life too long":      {environ("AUTH_MAX_LIFE=9000h"), "AUTH_MAX_LIFE", "must be"},
		"claim":              {environ("AUTH_ROLES_CLAIM=realm_access.roles "), "AUTH_ROLES_CLAIM", "blank"},
		"default merchant":   {environ("AUTH_DEFAULT_MERCHANT=a b"), "AUTH_DEFAULT_MERCHANT", `is "a b" and must be 1 to 64`},
		"dev tokens, claim":  {environ("AUTH_DEV_TOKENS=true", "AUTH_ROLES_CLAIM=a.b"), "AUTH_DEV_TOKENS", "AUTH_ROLES_CLAIM"},
		"session too short":  {environ("SESSION_TTL=1s"), "SESSION_TTL", "1m0s to"},
		"session too long":   {environ("SESSION_TTL=721h"), "SESSION_TTL", "must be"},
		"session secret":     {production("SESSION_SECRET=short"), "SESSION_SECRET", "at least 32"},
		"session default":    {production("SESSION_SECRET=" + DevelopmentSessionSecret), "SESSION_SECRET", "for development"},
		"session not alone":  {production("SESSION_SECRET=" + strong), "SESSION_SECRET", "AUTH_HS256_SECRET holds too"},
		"dev tokens, typ":    {environ("AUTH_DEV_TOKENS=true", "AUTH_TYP=at+jwt"), "AUTH_DEV_TOKENS", "JWT in AUTH_TYP"},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg config
			err := Load(&cfg, c.environ)
			var wrong *Error
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, c.variable, wrong.Variable)
			require.True(t, strings.HasPrefix(err.Error(), c.variable+" "), err.Error())
			require.Contains(t, err.Error(), c.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestErrorsOfUnparsableSecretsHideTheirValue(t *testing.T) {
	var c struct {
		PIN int `env:"PIN" secret:"true"`
	}
	err := Load(&c, map[string]string{"PIN": "hush"})
	require.EqualError(t, err, "PIN is not a whole number in range")
}

func TestDescribeHidesSecrets(t *testing.T) {
	var c config
	require.NoError(t, Load(&c, environ("PATH_KEYS=hush1,hush2", "AUTH_HS256_SECRET=hush", "REDIS_ADDRS=a:1,b:2")))
	attrs := map[string]string{}
	for _, a := range Describe(&c) {
		attrs[a.Key] = a.Value.String()
	}
	require.NotContains(t, fmt.Sprint(attrs), "hush")
	require.Equal(t, "(hidden)", attrs["MYSQL_DSN"])
	require.Equal(t, "(hidden)", attrs["PATH_KEYS"])
	require.Equal(t, "(hidden)", attrs["AUTH_HS256_SECRET"])
	require.Equal(t, "a:1,b:2", attrs["REDIS_ADDRS"])
	require.Equal(t, "3s", attrs["GRACE"])
	require.Equal(t, "INFO", attrs["LOG_LEVEL"])
	c.MySQL.DSN = Credential{}
	for _, a := range Describe(c) {
		if a.Key == "MYSQL_DSN" {
			require.Empty(t, a.Value.String())
		}
	}
}
