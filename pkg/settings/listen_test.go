package settings

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// listening has all three listeners, as the order service has.
type listening struct {
	App
	HTTP
	InternalAddr string `env:"INTERNAL_ADDR" envDefault:"127.0.0.1:7080"`
}

func TestWithoutAnEnvironmentListenersMustBeOnLoopback(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost:1", "LOCALHOST:1"} {
		for _, variable := range []string{"HTTP_ADDR", "INTERNAL_ADDR", "ADMIN_ADDR"} {
			require.NoError(t, Load(new(listening), map[string]string{variable: addr}), "%s=%s", variable, addr)
		}
	}
	for _, addr := range []string{":8081", "0.0.0.0:8081", "[::]:8081", "10.1.2.3:8081", "[2001:db8::1]:8081", "nowhere.invalid:8081"} {
		for _, variable := range []string{"HTTP_ADDR", "INTERNAL_ADDR", "ADMIN_ADDR"} {
			environ := map[string]string{variable: addr}
			for _, unset := range []string{"", "APP_ENV"} { // unset, and set but empty
				if unset != "" {
					environ[unset] = ""
				}
				err := Load(new(listening), environ)
				var wrong *Error
				require.ErrorAs(t, err, &wrong, "%s=%s", variable, addr)
				require.Equal(t, "APP_ENV", wrong.Variable)
				require.ErrorContains(t, err, variable+"="+addr)
				require.NotContains(t, err.Error(), "\n")
			}
			environ["APP_ENV"] = Development
			require.NoError(t, Load(new(listening), environ), "%s=%s", variable, addr)
			environ["APP_ENV"] = Production
			require.NoError(t, Load(new(listening), environ), "%s=%s", variable, addr)
		}
	}
}

func TestProfilesAreNotServedToOtherMachinesInProduction(t *testing.T) {
	environ := map[string]string{"APP_ENV": Production, "PPROF": "true"}
	require.NoError(t, Load(new(listening), environ))
	environ["ADMIN_ADDR"] = ":9081"
	err := Load(new(listening), environ)
	require.ErrorContains(t, err, `PPROF must not be true with APP_ENV=production while ADMIN_ADDR is ":9081"`)
	environ["APP_ENV"] = Development
	require.NoError(t, Load(new(listening), environ))
}

func TestLogAtStartWarnsOfReachableDevelopmentSettings(t *testing.T) {
	for name, c := range map[string]struct {
		environ map[string]string
		warns   string // the listeners, "" for no warning
	}{
		"unset":                    {nil, ""},
		"development, loopback":    {map[string]string{"APP_ENV": Development}, ""},
		"development, reachable":   {map[string]string{"APP_ENV": Development, "HTTP_ADDR": ":8081", "INTERNAL_ADDR": "0.0.0.0:7081"}, "HTTP_ADDR=:8081,INTERNAL_ADDR=0.0.0.0:7081"},
		"production, reachable":    {map[string]string{"APP_ENV": Production, "HTTP_ADDR": ":8081"}, ""},
		"development, admin alone": {map[string]string{"APP_ENV": Development, "ADMIN_ADDR": "[::]:9081"}, "ADMIN_ADDR=[::]:9081"},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg listening
			require.NoError(t, Load(&cfg, c.environ))
			var out bytes.Buffer
			LogAtStart(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), cfg)
			require.Contains(t, out.String(), "HTTP_ADDR="+cfg.Addr)
			if c.warns == "" {
				require.NotContains(t, out.String(), "level=WARN")
				return
			}
			require.Contains(t, out.String(), "level=WARN")
			require.Contains(t, out.String(), `listeners="`+c.warns+`"`)
		})
	}
}
