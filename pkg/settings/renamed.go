package settings

import (
	"maps"
	"slices"
)

// replaced has, for each variable that an earlier release read, what an operator sets instead.
var replaced = map[string]string{
	"OIDC_REDIRECT_URL":   "PUBLIC_URL, the address of the pages without a path, such as https://shop.example.com",
	"OIDC_LOGOUT_URL":     "PUBLIC_URL, the address of the pages without a path, such as https://shop.example.com",
	"CHALLENGE_HOSTNAMES": "PUBLIC_URL, the address of the pages without a path, such as https://shop.example.com",
	"INVENTORY_CONSUMERS": "CONSUMERS",
	"ORDER_CONSUMERS":     "CONSUMERS",
	"PAYMENTS_SANDBOX":    "PAYMENT_PROVIDERS=sandbox, unless it was false",
	"MIGRATE_PATIENCE":    "the flag of the command, such as: migrate up -wait 5m",
}

// checkReplaced reports a variable that no process reads any more, since its value would have no effect.
func checkReplaced(environ map[string]string) error {
	for _, variable := range slices.Sorted(maps.Keys(replaced)) {
		if environ[variable] != "" {
			return Wrong(variable, "is no longer read; remove it and set %s", replaced[variable])
		}
	}
	return nil
}
