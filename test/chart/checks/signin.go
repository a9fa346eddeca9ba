package checks

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The egress rules for the identity provider select the pods of seckill alone, and exist only with a provider.
func onlySeckillMayReachTheIdentityProvider(t *testing.T) {
	const id = "NetworkPolicy/flashsale-egress-sign-in"
	set := []string{
		"networkPolicy.egress.enabled=true", "networkPolicy.egress.toIdentityProvider[0].to[0].ipBlock.cidr=192.0.2.7/32",
		"networkPolicy.egress.toIdentityProvider[0].ports[0].port=443",
	}
	all := production(set...).objects(t)
	policy := pick(t, all, id)
	require.Equal(t, []any{"Egress"}, list(policy, "spec", "policyTypes"))
	require.Equal(t, []any{map[string]any{
		"to":    []any{map[string]any{"ipBlock": map[string]any{"cidr": "192.0.2.7/32"}}},
		"ports": []any{map[string]any{"port": 443.0}},
	}}, list(policy, "spec", "egress"))
	chosen := chooseBy(workloads(all), fields(policy, "spec", "podSelector"))
	require.Len(t, chosen, 1)
	require.Equal(t, "seckill", chosen[0].component())
	require.NotContains(t, production(append(set, "oidc=null")...).text(t), "192.0.2.7", "there is no provider")
	require.NotContains(t, production(append(set[1:], "networkPolicy.egress.enabled=false")...).text(t), "192.0.2.7")
	// Rules for all pods may already include the provider.
	all = production("networkPolicy.egress.enabled=true", "networkPolicy.egress.to[0].ports[0].port=443").objects(t)
	require.False(t, slices.ContainsFunc(all, func(o object) bool { return o.id() == id }))
}

// seckill gets the settings of the pages and of the provider; no other service does.
func thePagesGetTheirSettings(t *testing.T) {
	all := production("pages.logoURL=/logo.svg", "pages.accent=#004d40", "pages.accentInk=#fffffe",
		"pages.accentDark=#80cbc4", "pages.accentInkDark=#001a15",
		"pages.imageOrigins={https://a.example.com,https://b.example.com}", "session.ttl=8h").objects(t)
	data := fieldTexts(pick(t, all, "ConfigMap/flashsale-seckill"), "data")
	for key, want := range map[string]string{
		"PAGES_NAME": "Example Shop", "PAGES_LOGO_URL": "/logo.svg", "PAGES_ACCENT": "#004d40",
		"PAGES_ACCENT_INK": "#fffffe", "PAGES_ACCENT_DARK": "#80cbc4", "PAGES_ACCENT_INK_DARK": "#001a15",
		"PAGES_IMAGE_ORIGINS": "https://a.example.com,https://b.example.com",
		"OIDC_ISSUER":         "https://login.example.com/", "OIDC_CLIENT_ID": "flashsale-pages",
		"PUBLIC_URL": "https://shop.example.com",
	} {
		require.Equal(t, want, data[key], key)
		for _, other := range []string{"order", "inventory"} {
			require.NotContains(t, fieldTexts(pick(t, all, "ConfigMap/flashsale-"+other), "data"), key, other)
		}
	}
	for _, name := range services {
		require.Equal(t, "8h", text(pick(t, all, "ConfigMap/flashsale-"+name), "data", "SESSION_TTL"), name)
	}
	// The pages offer what order has, and inventory has its name.
	for want, r := range map[string]rendering{"sandbox": kind(), "": production(), "stripe,shop": withStripe()} {
		for _, name := range services {
			require.Equal(t, want, fieldTexts(pick(t, r.objects(t), "ConfigMap/flashsale-"+name), "data")["PAYMENT_PROVIDERS"], name)
		}
	}
}

// helm upgrade --reuse-values keeps the values of a release without pages, which lack these.
func valuesOfAnEarlierReleaseAreEnough(t *testing.T) {
	all := production("publicURL=null", "session=null", "oidc=null", "pages=null", "tls=null", "jobs=null", "image.digests=null",
		"defaults.extraEnv=null", "defaults.envFrom=null", "defaults.volumes=null", "defaults.volumeMounts=null",
		"defaults.sidecars=null", "defaults.serviceAccount=null", "redis.tls=null", "redis.sentinel=null", "redis.mode=null",
		"limits.redis.sentinel=null", "limits.redis.mode=null", "payments.providers=null", "payments.rate=null", "payments.shop=null", "payments.stripe=null", "webhooks=null", "edge.autoscaling=null").objects(t)
	data := fieldTexts(pick(t, all, "ConfigMap/flashsale-seckill"), "data")
	require.Equal(t, "12h", data["SESSION_TTL"])
	require.NotContains(t, data, "OIDC_ISSUER")
	require.NotContains(t, data, "PAGES_NAME", "the program has a default")
}
