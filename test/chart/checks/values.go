package checks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// digest is one of an image.
var digest = "sha256:" + strings.Repeat("0123456789abcdef", 4)

// wrongValuesAreRefused checks that each wrong value fails the rendering with a message that names it.
func wrongValuesAreRefused(t *testing.T) {
	for set, message := range map[string]string{
		// Combinations.
		"auth.devTokens=true":                                    "auth.devTokens issues a token to any client and cannot be true with environment: production",
		"payments.providers={sandbox}":                           "payments.providers: sandbox takes no money and is refused with environment: production",
		"payments.providers={stripe},payments.rate=25":           "payments.stripe.existingSecret is required with payments.providers: stripe",
		"payments.providers={stripe}":                            "payments.rate is required with payments.providers: stripe",
		"payments.providers={stripe},publicURL=,oidc=null":       "publicURL is required with payments.providers: stripe",
		"payments.providers={shop}":                              "payments.shop.checkoutURL is required with payments.providers: shop",
		"payments.shop.apiURL=http://shop":                       "payments.shop.apiURL must be an https URL with environment: production",
		"payments.sandbox=true":                                  "payments.sandbox is no longer read: remove it and set payments.providers to [sandbox]",
		"devdeps.enabled=true":                                   "devdeps.enabled installs a database without a replica",
		"mysql.existingSecret=":                                  "mysql.existingSecret is required",
		"redis.addresses=null":                                   "redis.addresses is required",
		"rocketmq.nameServers=null":                              "rocketmq.nameServers is required",
		"monitoring.enabled=true,networkPolicy.metricsFrom=null": "networkPolicy.metricsFrom is required with monitoring.enabled",
		"redis.db=1":                                             "redis.db must be 0 with a cluster, which has one database",
		"redis.mode=single":                                      "redis.mode: single must not have several redis.addresses",
		"redis.mode=sentinel":                                    "redis.sentinel.master is required with redis.mode: sentinel",
		"redis.sentinel.master=sale":                             "redis.sentinel.master needs redis.mode: sentinel",
		"redis.existingSecret=r":                                 "redis.tls.enabled is required with redis.existingSecret and environment: production",
		"limits.redis.existingSecret=r":                          "redis.tls.enabled is required with limits.redis.existingSecret and environment: production",
		"redis.username=gate":                                    "redis.username needs redis.existingSecret, a Secret with REDIS_PASSWORD",
		"limits.redis.username=limits":                           "limits.redis.username needs limits.redis.existingSecret, a Secret with LIMIT_REDIS_PASSWORD",
		"redis.tls.serverName=redis":                             "redis.tls.serverName needs redis.tls.enabled",
		"limits.redis.mode=cluster,limits.redis.db=1":            "limits.redis.db must be 0 with a cluster",
		"limits.redis.addresses=null,limits.redis.db=1":          "limits.redis.db and limits.redis.mode need limits.redis.addresses",
		"auth.jwksURL=http://login.example.com/":                 "auth.jwksURL must be an https URL",
		"auth.audience=":                                         "auth.audience is required with auth.jwksURL and environment: production",
		"auth.issuer=":                                           "auth.issuer is required with auth.jwksURL and environment: production",
		"oidc.issuer=":                                           "oidc.clientID is set and oidc.issuer is not",
		"oidc.clientID=":                                         "oidc.clientID is required with oidc.issuer",
		"publicURL=":                                             "publicURL is required with oidc.issuer: the address of the pages",
		"oidc.issuer=http://l.test":                              "oidc.issuer must be an https URL with environment: production",
		"publicURL=http://s.test":                                "publicURL must be an https URL with environment: production",
		"oidc.redirectURL=https://s.test/auth/callback":          "oidc.redirectURL is no longer read: remove it and set publicURL",
		"oidc.logoutURL=https://s.test/":                         "oidc.logoutURL is no longer read: remove it and set publicURL",

		"secrets.existingSecret=,oidc.existingSecret=flashsale-secrets": "oidc.existingSecret: flashsale-secrets is the Secret that the chart generates",
		"networkPolicy.egress.enabled=true":                             "networkPolicy.egress.toIdentityProvider is required with oidc.issuer",
		"session.ttl=59s":                                               "session.ttl is 59s and must be 1m to 720h",
		"session.ttl=720h1s":                                            "session.ttl is 720h1s and must be 1m to 720h",
		"limits.trustedProxies[0]=0.0.0.0/0":                            "limits.trustedProxies: 0.0.0.0/0 is wider than any private network",
		"limits.trustedProxies[0]=::/0":                                 "limits.trustedProxies: ::/0 is wider than any private network",
		"limits.trustedProxies[0]=128.0.0.0/1":                          "limits.trustedProxies: 128.0.0.0/1 is wider than any private network",
		"edge.trustedProxies[0]=0.0.0.0/0":                              "edge.trustedProxies: 0.0.0.0/0 is wider than any private network",
		"components.seckill.env.PPROF=true":                             "components.seckill.env.PPROF cannot be true with environment: production",
		"defaults.env.PPROF=1":                                          "env.PPROF cannot be true with environment: production",
		"defaults.env.TEST_TIMERS=order.sweep_every=1s":                 "env.TEST_TIMERS cannot be set with environment: production",
		"edge.service.nodePort=30080":                                   "edge.service.nodePort needs edge.service.type: NodePort",
		"ingress.enabled=true":                                          "ingress.host is required with ingress.enabled",
		"components.order.autoscaling.min=9":                            "components.order.autoscaling: min (9) is above max (8)",
		"edge.autoscaling.min=13":                                       "edge.autoscaling: min (13) is above max (12)",
		"edge.resources.requests.cpu=null":                              "edge.autoscaling needs resources.requests.cpu",
		"ingress.enabled=true,ingress.host=shop.test":                   "edge.trustedProxies is required with ingress.enabled: all buyers would share the limits",
		"edge.service.externalTrafficPolicy=Cluster":                    "edge.service.externalTrafficPolicy: Cluster with type LoadBalancer hides the callers' addresses",
		"components.order.resources.limits.memory=512M":                 "components.order.resources.limits.memory: 512M must be whole Mi or Gi",
		"image.prefix=shop/flashsale":                                   "image.prefix: shop/flashsale has no registry and means docker.io/shop/flashsale",
		"image.prefix=flashsale":                                        "image.prefix: flashsale has no registry and means docker.io/flashsale",
		// Single values, refused by the schema.
		"environment=staging":                                  "environment",
		"logLevel=loud":                                        "logLevel",
		"replicas=3":                                           "replicas",
		"components.warehouse.replicas=1":                      "warehouse",
		"components.seckill.replica=1":                         "replica",
		"components.seckill.replicas=-1":                       "replicas",
		"components.seckill.replicas=many":                     "replicas",
		"components.seckill.resources.limits.memory=x":         "memory",
		"components.seckill.env.HTTP_ADDR=:80":                 "HTTP_ADDR",
		"components.order.env.MYSQL_DSN=root@/x":               "MYSQL_DSN",
		"components.order.env.lower=1":                         "lower",
		"contacts.keep=23h":                                    "keep",
		"contacts.keep=43801h":                                 "keep",
		"components.seckill.env.SESSION_SECRET=x":              "SESSION_SECRET",
		"components.seckill.env.OIDC_CLIENT_SECRET=x":          "OIDC_CLIENT_SECRET",
		"session.ttl=1 day":                                    "ttl",
		"oidc.issuer=login.example.com":                        "issuer",
		"oidc.clientSecret=x":                                  "clientSecret",
		"publicURL=https://s.test/auth/callback":               "publicURL",
		"publicURL=https://u@s.test":                           "publicURL",
		"pages.name=":                                          "name",
		"pages.name=" + strings.Repeat("x", 61):                "name",
		"pages.logoURL=logo.svg":                               "logoURL",
		"pages.logoURL=//cdn.example.com/logo.svg":             "logoURL",
		"pages.accent=orange":                                  "accent",
		"pages.accentInkDark=#fff":                             "accentInkDark",
		"pages.imageOrigins[0]=img.example.com":                "imageOrigins",
		"pages.imageOrigins[0]=https://img.example.com/a":      "imageOrigins",
		"networkPolicy.egress.toProvider[0].ports[0].port=443": "toProvider",
		"auth.types[0]=at jwt":                                 "types",
		"auth.maxLife=1 day":                                   "maxLife",
		"auth.rolesClaim=":                                     "rolesClaim",
		"auth.defaultMerchant=a b":                             "defaultMerchant",
		"image.tag=v1 beta":                                    "tag",
		"image.pullPolicy=Sometimes":                           "pullPolicy",
		"image.digests.seckill=sha256:abc":                     "digests",
		"image.digests.edge=" + digest:                         "digests",
		"redis.addresses[0]=redis":                             "redis",
		"redis.mode=sentinels":                                 "mode",
		"redis.password=x":                                     "password",
		"components.seckill.env.REDIS_PASSWORD=x":              "REDIS_PASSWORD",
		"limits.trustedProxies[0]=edge":                        "trustedProxies",
		"tracing.sampleRatio=2":                                "sampleRatio",
		"tracing.sampleRatio=1.5":                              "sampleRatio",
		"tracing.sampleRatio=much":                             "sampleRatio",
		"tracing.endpoint=collector:4317":                      "endpoint",
		"edge.service.type=Ingress":                            "type",
		"edge.limits.requestsPerSecond=fast":                   "requestsPerSecond",
		"edge.limits.pages.requestsPerSecond=-1":               "requestsPerSecond",
		"edge.limits.pages.rate=5":                             "rate",
		"drain.timeoutSeconds=0":                               "timeoutSeconds",
		"fullnameOverride=Flash_Sale":                          "fullnameOverride",
		"devdeps.mysql.storage=much":                           "storage",
		"devdeps.redis.maxMemory=256":                          "maxMemory",
		"devdeps.kafka.enabled=true":                           "kafka",
	} {
		t.Run(set, func(t *testing.T) {
			r := production(set)
			if strings.HasPrefix(set, "devdeps.") && set != "devdeps.enabled=true" {
				r = kind(set)
			}
			require.Contains(t, r.refused(t), message)
		})
	}
	require.Contains(t, kind("mysql.existingSecret=other").refused(t),
		"names another database while devdeps.mysql is enabled")
	require.Contains(t, kind("redis.addresses[0]=redis:6379").refused(t),
		"names another Redis while devdeps.redis is enabled")
	require.Contains(t, kind("redis.tls.enabled=true").refused(t), "for another Redis than that of devdeps.redis")
	require.Contains(t, kind("rocketmq.existingSecret=users").refused(t), "for another RocketMQ than that of devdeps.rocketmq")
	// A password may come from a file.
	require.NotEmpty(t, production("redis.username=gate", "defaults.env.REDIS_PASSWORD_FILE=/run/x").objects(t))
	require.Contains(t, kind("ingress.enabled=true", "ingress.host=x", "edge.enabled=false").refused(t),
		"ingress.enabled needs edge.enabled")
	// Without any values the message names values-kind.yaml.
	require.Contains(t, rendering{}.refused(t), "-f values-kind.yaml")
}

// In production the name of an image begins with its registry. A digest replaces the tag of its image alone.
func imagesAreExact(t *testing.T) {
	for _, prefix := range []string{"docker.io/flashsale", "localhost/flashsale", "registry:5000", "registry.example.com"} {
		all := production("image.prefix="+prefix, "image.tag=v1").objects(t)
		require.Equal(t, prefix+"/seckill:v1", text(deployment(t, all, "seckill").containers()[0], "image"))
	}
	require.Contains(t, kind("image.tag=v1").text(t), " flashsale/seckill:v1\n", "development needs no registry")
	all := kind("image.tag=v1", "image.digests.order="+digest, "image.digests.topics="+digest,
		"image.digests.flashctl="+digest).objects(t)
	images := map[string]string{}
	for _, w := range workloads(all) {
		for _, c := range w.containers() {
			images[w.component()+" "+text(c, "name")] = text(c, "image")
		}
	}
	for of, image := range map[string]string{
		"seckill seckill": "flashsale/seckill:v1", "inventory migrations": "flashsale/inventory:v1",
		"order order": "flashsale/order@" + digest, "order migrations": "flashsale/order@" + digest,
		"order-migrate migrate": "flashsale/order@" + digest, "topics topics": "flashsale/topics@" + digest,
		"test-sale flashctl": "flashsale/flashctl@" + digest,
	} {
		require.Equal(t, image, images[of], of)
	}
}

func anOlderKubernetesIsRefused(t *testing.T) {
	r := production()
	r.kube = "1.29.9"
	require.Contains(t, r.refused(t), "1.30.0")
}
