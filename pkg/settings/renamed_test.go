package settings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReplacedVariableIsRefused(t *testing.T) {
	for variable, says := range map[string]string{
		"OIDC_REDIRECT_URL=https://shop.example.com/auth/callback": "OIDC_REDIRECT_URL is no longer read; remove it and set PUBLIC_URL, the address of the pages without a path, such as https://shop.example.com",
		"ORDER_CONSUMERS=8":   "ORDER_CONSUMERS is no longer read; remove it and set CONSUMERS",
		"MIGRATE_PATIENCE=5m": "MIGRATE_PATIENCE is no longer read; remove it and set the flag of the command, such as: migrate up -wait 5m",
	} {
		require.EqualError(t, Load(new(config), environ(variable)), says)
	}
	require.NoError(t, Load(new(config), environ("OIDC_LOGOUT_URL=")), "as the chart of an earlier release may set it")
}
