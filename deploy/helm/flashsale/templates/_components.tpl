{{/*
Properties of the three services that an installation cannot change.
  port, adminPort, internalPort   ports of the listeners
  internalFrom                    components that call the internal listener
  redis, mysql                    dependencies; mysql names the database and, in upper case, the key of its DSN
  secrets                         keys of the Secret that the service gets
*/}}
{{- define "flashsale.facts" -}}
seckill: {port: 8081, adminPort: 9081, redis: true, secrets: [INTERNAL_SECRET, PATH_SECRETS, SESSION_SECRET]}
order: {port: 8082, adminPort: 9082, internalPort: 7082, internalFrom: [inventory], redis: true, mysql: order, secrets: [INTERNAL_SECRET, CONTACT_KEYS, SESSION_SECRET]}
inventory: {port: 8083, adminPort: 9083, internalPort: 7083, internalFrom: [order, seckill], redis: true, mysql: inventory, secrets: [INTERNAL_SECRET, SESSION_SECRET, WEBHOOK_KEYS]}
{{- end }}

{{/* component: a service's values merged over the defaults, as YAML. dict "root" $ "name" COMPONENT */}}
{{- define "flashsale.component" -}}
{{- $own := index .root.Values.components .name | default dict -}}
{{- $all := mergeOverwrite (deepCopy .root.Values.defaults) (deepCopy $own) -}}
{{- toYaml $all -}}
{{- end }}

{{- define "flashsale.redisAddresses" -}}
{{- if and .Values.devdeps.enabled (dig "redis" "enabled" true .Values.devdeps) -}}
{{ include "flashsale.devdep" (dict "root" . "name" "redis") }}:6379
{{- else -}}
{{ join "," .Values.redis.addresses }}
{{- end -}}
{{- end }}

{{- define "flashsale.nameServers" -}}
{{- if and .Values.devdeps.enabled (dig "rocketmq" "enabled" true .Values.devdeps) -}}
{{ include "flashsale.devdep" (dict "root" . "name" "namesrv") }}:9876
{{- else -}}
{{ join "," .Values.rocketmq.nameServers }}
{{- end -}}
{{- end }}

{{- define "flashsale.otlpEndpoint" -}}
{{- if .Values.tracing.endpoint -}}
{{ .Values.tracing.endpoint }}
{{- else if and .Values.devdeps.enabled (dig "jaeger" "enabled" true .Values.devdeps) -}}
http://{{ include "flashsale.devdep" (dict "root" . "name" "jaeger") }}:4317
{{- end -}}
{{- end }}

{{/* gateUser: not empty if a service gets the user of redis.username: order has limits only. dict "root" $ "name" COMPONENT */}}
{{- define "flashsale.gateUser" -}}
{{- if not (and (eq .name "order") .root.Values.limits.redis.existingSecret) }}yes{{ end -}}
{{- end }}

{{/* settings: environment variables that are not secret. dict "root" $ "name" COMPONENT "facts" FACTS "own" VALUES */}}
{{- define "flashsale.settings" -}}
{{- $v := .root.Values -}}
{{- $s := dict
  "APP_ENV" $v.environment
  "LOG_LEVEL" $v.logLevel
  "HTTP_ADDR" (printf ":%v" .facts.port)
  "ADMIN_ADDR" (printf ":%v" .facts.adminPort)
  "DRAIN_TIMEOUT" (printf "%vs" $v.drain.timeoutSeconds)
  "ROCKETMQ_NAMESRV" (include "flashsale.nameServers" .root)
  "AUTH_DEV_TOKENS" (toString $v.auth.devTokens)
  "SESSION_TTL" (dig "ttl" "12h" ($v.session | default dict))
-}}
{{- with $v.rocketmq.prefix }}{{ $_ := set $s "ROCKETMQ_PREFIX" . }}{{ end -}}
{{- with $v.auth.jwksURL }}{{ $_ := set $s "AUTH_JWKS_URL" . }}{{ end -}}
{{- with $v.auth.audience }}{{ $_ := set $s "AUTH_AUDIENCE" . }}{{ end -}}
{{- with $v.auth.issuer }}{{ $_ := set $s "AUTH_ISSUER" . }}{{ end -}}
{{- with $v.auth.types }}{{ $_ := set $s "AUTH_TYP" (join "," .) }}{{ end -}}
{{- with $v.auth.maxLife }}{{ $_ := set $s "AUTH_MAX_LIFE" . }}{{ end -}}
{{- with $v.auth.userClaim }}{{ $_ := set $s "AUTH_USER_CLAIM" . }}{{ end -}}
{{- with $v.auth.rolesClaim }}{{ $_ := set $s "AUTH_ROLES_CLAIM" . }}{{ end -}}
{{- with $v.auth.merchantClaim }}{{ $_ := set $s "AUTH_MERCHANT_CLAIM" . }}{{ end -}}
{{- with $v.auth.defaultMerchant }}{{ $_ := set $s "AUTH_DEFAULT_MERCHANT" . }}{{ end -}}
{{- if .facts.redis -}}
{{- $_ := set $s "REDIS_ADDRS" (include "flashsale.redisAddresses" .root) -}}
{{- $_ := set $s "REDIS_DB" (toString $v.redis.db) -}}
{{- with $v.redis.mode }}{{ $_ := set $s "REDIS_MODE" . }}{{ end -}}
{{- if include "flashsale.gateUser" . }}{{ with $v.redis.username }}{{ $_ := set $s "REDIS_USERNAME" . }}{{ end }}{{ end -}}
{{- with $v.redis.tls -}}
{{- if .enabled }}{{ $_ := set $s "REDIS_TLS" "true" }}{{ end -}}
{{- with .serverName }}{{ $_ := set $s "REDIS_TLS_SERVER_NAME" . }}{{ end -}}
{{- end -}}
{{- with $v.redis.sentinel -}}
{{- with .master }}{{ $_ := set $s "REDIS_SENTINEL_MASTER" . }}{{ end -}}
{{- with .username }}{{ $_ := set $s "REDIS_SENTINEL_USERNAME" . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $v.limits.redis.addresses -}}
{{- $_ := set $s "LIMIT_REDIS_ADDRS" (join "," $v.limits.redis.addresses) -}}
{{- $_ := set $s "LIMIT_REDIS_DB" (toString $v.limits.redis.db) -}}
{{- with $v.limits.redis.mode }}{{ $_ := set $s "LIMIT_REDIS_MODE" . }}{{ end -}}
{{- with $v.limits.redis.sentinel }}{{ with .master }}{{ $_ := set $s "LIMIT_REDIS_SENTINEL_MASTER" . }}{{ end }}{{ end -}}
{{- end -}}
{{- with $v.limits.redis.username }}{{ $_ := set $s "LIMIT_REDIS_USERNAME" . }}{{ end -}}
{{- with $v.limits.trustedProxies }}{{ $_ := set $s "TRUSTED_PROXIES" (join "," .) }}{{ end -}}
{{- if $v.limits.rules }}{{ $_ := set $s "LIMIT_RULES" "/etc/flashsale/limits/rules.yaml" }}{{ end -}}
{{- if .facts.internalPort }}{{ $_ := set $s "INTERNAL_ADDR" (printf ":%v" .facts.internalPort) }}{{ end -}}
{{- if has .name (list "order" "seckill") -}}
{{- $_ := set $s "INVENTORY_INTERNAL_URL" (printf "http://%s-inventory-internal:7083" (include "flashsale.fullname" .root)) -}}
{{- end -}}
{{- with $v.payments.providers }}{{ $_ := set $s "PAYMENT_PROVIDERS" (join "," .) }}{{ end -}}
{{- if ne .name "seckill" -}}
{{- with $v.payments.rate }}{{ $_ := set $s "PAYMENT_RATE" (. | int64 | toString) }}{{ end -}}
{{- end -}}
{{- if eq .name "seckill" -}}
{{- with $v.oidc -}}
{{- with .issuer }}{{ $_ := set $s "OIDC_ISSUER" . }}{{ end -}}
{{- with .clientID }}{{ $_ := set $s "OIDC_CLIENT_ID" . }}{{ end -}}
{{- end -}}
{{- with $v.publicURL }}{{ $_ := set $s "PUBLIC_URL" . }}{{ end -}}
{{- with $v.pages -}}
{{- with .name }}{{ $_ := set $s "PAGES_NAME" . }}{{ end -}}
{{- with .logoURL }}{{ $_ := set $s "PAGES_LOGO_URL" . }}{{ end -}}
{{- with .accent }}{{ $_ := set $s "PAGES_ACCENT" . }}{{ end -}}
{{- with .accentInk }}{{ $_ := set $s "PAGES_ACCENT_INK" . }}{{ end -}}
{{- with .accentDark }}{{ $_ := set $s "PAGES_ACCENT_DARK" . }}{{ end -}}
{{- with .accentInkDark }}{{ $_ := set $s "PAGES_ACCENT_INK_DARK" . }}{{ end -}}
{{- with .imageOrigins }}{{ $_ := set $s "PAGES_IMAGE_ORIGINS" (join "," .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if eq .name "order" -}}
{{- with $v.payments.shop -}}
{{- with .checkoutURL }}{{ $_ := set $s "PAYMENTS_SHOP_CHECKOUT_URL" . }}{{ end -}}
{{- with .apiURL }}{{ $_ := set $s "PAYMENTS_SHOP_API_URL" . }}{{ end -}}
{{- end -}}
{{- if has "stripe" ($v.payments.providers | default list) -}}
{{- $_ := set $s "PUBLIC_URL" $v.publicURL -}}
{{- with dig "methods" list ($v.payments.stripe | default dict) }}{{ $_ := set $s "PAYMENTS_STRIPE_METHODS" (join "," .) }}{{ end -}}
{{- end -}}
{{- $_ := set $s "CONTACT_KEEP" (dig "keep" "2160h" ($v.contacts | default dict)) -}}
{{- end -}}
{{- if eq .name "inventory" -}}
{{- with dig "networks" list ($v.webhooks | default dict) }}{{ $_ := set $s "WEBHOOK_NETWORKS" (join "," .) }}{{ end -}}
{{- $_ := set $s "ORDER_INTERNAL_URL" (printf "http://%s-order-internal:7082" (include "flashsale.fullname" .root)) -}}
{{- with $v.merchants -}}
{{- $_ := set $s "MERCHANT_MAX_ACTIVITIES" (.maxActivities | int64 | toString) -}}
{{- $_ := set $s "MERCHANT_MAX_SKUS" (.maxSKUs | int64 | toString) -}}
{{- end -}}
{{- end -}}
{{- with include "flashsale.otlpEndpoint" .root -}}
{{- $_ := set $s "OTEL_EXPORTER_OTLP_ENDPOINT" . -}}
{{- $_ := set $s "OTEL_EXPORTER_OTLP_PROTOCOL" "grpc" -}}
{{- $_ := set $s "OTEL_TRACES_SAMPLER" "parentbased_traceidratio" -}}
{{- $_ := set $s "OTEL_TRACES_SAMPLER_ARG" (toString $v.tracing.sampleRatio) -}}
{{- /* Prometheus reads the admin port. */ -}}
{{- $_ := set $s "OTEL_METRICS_EXPORTER" "none" -}}
{{- end -}}
{{- /* Numbers are floats here; toString would print a million as 1e+06. */ -}}
{{- range $k, $x := .own.env }}{{ $_ := set $s $k (ternary (toJson $x) (toString $x) (kindIs "float64" $x)) }}{{ end -}}
{{- toYaml $s -}}
{{- end }}

{{/*
Names, as JSON, of the variables that extraEnv sets, and for each X_FILE in extraEnv or env also X: the chart must not
set these from its Secrets. VALUES of a component
*/}}
{{- define "flashsale.given" -}}
{{- $names := list -}}
{{- range .extraEnv }}{{ $names = append $names .name }}{{ end -}}
{{- range concat $names (keys (.env | default dict)) -}}
{{- if hasSuffix "_FILE" . }}{{ $names = append $names (trimSuffix "_FILE" .) }}{{ end -}}
{{- end -}}
{{- toJson $names -}}
{{- end }}

{{/* Environment variables from the Secret. dict "root" $ "name" COMPONENT "facts" FACTS "own" VALUES */}}
{{- define "flashsale.secretEnv" -}}
{{- $root := .root -}}
{{- $given := include "flashsale.given" .own | fromJsonArray -}}
{{- $keys := .facts.secrets -}}
{{- if not $root.Values.auth.jwksURL }}{{ $keys = append $keys "AUTH_HS256_SECRET" }}{{ end -}}
{{- if and (eq .name "order") (has "sandbox" ($root.Values.payments.providers | default list)) }}{{ $keys = append $keys "PAYMENTS_SANDBOX_SECRET" }}{{ end -}}
{{- if and (eq .name "order") (has "shop" ($root.Values.payments.providers | default list)) }}{{ $keys = append $keys "PAYMENTS_SHOP_SECRET" }}{{ end -}}
{{- range $keys }}
{{- if not (has . $given) }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ include (dig . "flashsale.secretName" (dict "CONTACT_KEYS" "flashsale.contactKeysName" "WEBHOOK_KEYS" "flashsale.webhookKeysName")) $root }}, key: {{ . }}{{ if eq . "WEBHOOK_KEYS" }}, optional: true{{ end }}}}
{{- end }}
{{- end }}
{{- $client := dig "existingSecret" "" ($root.Values.oidc | default dict) }}
{{- if and (eq .name "seckill") $client (not (has "OIDC_CLIENT_SECRET" $given)) }}
- name: OIDC_CLIENT_SECRET
  valueFrom: {secretKeyRef: {name: {{ $client }}, key: OIDC_CLIENT_SECRET}}
{{- end }}
{{- $stripe := dig "existingSecret" "" ($root.Values.payments.stripe | default dict) }}
{{- if and (eq .name "order") $stripe (has "stripe" ($root.Values.payments.providers | default list)) }}
{{- range list "PAYMENTS_STRIPE_KEY" "PAYMENTS_STRIPE_WEBHOOK_SECRET" }}
{{- if not (has . $given) }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $stripe }}, key: {{ . }}}}
{{- end }}
{{- end }}
{{- end }}
{{- include "flashsale.rocketmqEnv" . }}
{{- with $root.Values.redis.existingSecret }}
{{- if and (include "flashsale.gateUser" $) (not (has "REDIS_PASSWORD" $given)) }}
- name: REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: REDIS_PASSWORD}}
{{- end }}
{{- if and (not (has "REDIS_SENTINEL_PASSWORD" $given)) (or (eq ($root.Values.redis.mode | default "") "sentinel") (eq ($root.Values.limits.redis.mode | default "") "sentinel")) }}
- name: REDIS_SENTINEL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: REDIS_SENTINEL_PASSWORD, optional: true}}
{{- end }}
{{- end }}
{{- with $root.Values.limits.redis.existingSecret }}
{{- if not (has "LIMIT_REDIS_PASSWORD" $given) }}
- name: LIMIT_REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: LIMIT_REDIS_PASSWORD}}
{{- end }}
{{- end }}
{{- end }}

{{/* The user of RocketMQ, of a service and of the topics Job. dict "root" $ "name" COMPONENT "own" VALUES */}}
{{- define "flashsale.rocketmqEnv" -}}
{{- $given := include "flashsale.given" .own | fromJsonArray -}}
{{- $name := upper .name -}}
{{- with .root.Values.rocketmq.existingSecret }}
{{- $secret := . }}
{{- range list "ACCESS_KEY" "SECRET_KEY" }}
{{- if not (has (printf "ROCKETMQ_%s" .) $given) }}
- name: ROCKETMQ_{{ . }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ $name }}_{{ . }}}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Environment variables for a service's database, for its container and those that migrate.
dict "root" $ "name" COMPONENT "facts" FACTS "own" VALUES
*/}}
{{- define "flashsale.mysqlEnv" -}}
{{- $file := dig "MYSQL_DSN_FILE" "" (.own.env | default dict) -}}
{{- $bundled := and .root.Values.devdeps.enabled (dig "mysql" "enabled" true .root.Values.devdeps) -}}
{{- $mysql := include "flashsale.devdep" (dict "root" .root "name" "mysql") -}}
{{- if and .facts.mysql $file }}
- {name: MYSQL_DSN_FILE, value: {{ $file | quote }}}
{{- else if and .facts.mysql (has "MYSQL_DSN" (include "flashsale.given" .own | fromJsonArray)) }}
{{- else if and .facts.mysql $bundled }}
- name: MYSQL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $mysql }}, key: {{ upper .facts.mysql }}_PASSWORD}}
- name: MYSQL_DSN
  value: flashsale_{{ .facts.mysql }}:$(MYSQL_PASSWORD)@tcp({{ $mysql }}:3306)/flashsale_{{ .facts.mysql }}
{{- else if .facts.mysql }}
- name: MYSQL_DSN
  valueFrom: {secretKeyRef: {name: {{ .root.Values.mysql.existingSecret }}, key: {{ upper .facts.mysql }}_DSN}}
{{- end }}
{{- if and .facts.mysql (dig "tls" "" (.root.Values.mysql | default dict)) }}
- {name: MYSQL_TLS, value: {{ .root.Values.mysql.tls | quote }}}
{{- end }}
{{- end }}
