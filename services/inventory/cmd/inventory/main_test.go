package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultSecretsRequireLoopback(t *testing.T) {
	for _, variable := range []string{"APP_ENV", "REDIS_ADDRS", "ROCKETMQ_NAMESRV"} { // with-dependencies sets those it does not start to -
		t.Setenv(variable, "")
	}
	t.Setenv("MYSQL_DSN", "root@tcp(127.0.0.1:1)/x")
	_, err := load()
	require.NoError(t, err, "the defaults listen on loopback")
	for _, variable := range []string{"HTTP_ADDR", "INTERNAL_ADDR", "ADMIN_ADDR"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, ":8089")
			_, err := load()
			require.ErrorContains(t, err, "APP_ENV must be set")
			require.ErrorContains(t, err, variable+"=:8089")
			t.Setenv("APP_ENV", "development")
			_, err = load()
			require.NoError(t, err)
		})
	}
}
