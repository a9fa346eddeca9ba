{{/* Checks that the schema cannot express: each wrong combination of values fails with a message. */}}
{{- define "flashsale.validate" -}}
{{- $v := .Values -}}
{{- $dev := $v.devdeps -}}
{{- $mysql := and $dev.enabled (dig "mysql" "enabled" true $dev) -}}
{{- $redis := and $dev.enabled (dig "redis" "enabled" true $dev) -}}
{{- $rocketmq := and $dev.enabled (dig "rocketmq" "enabled" true $dev) -}}
{{- if eq $v.environment "production" -}}
  {{- if $v.auth.devTokens }}{{ fail "auth.devTokens issues a token to any client and cannot be true with environment: production." }}{{ end -}}
  {{- if has "sandbox" ($v.payments.providers | default list) }}{{ fail "payments.providers: sandbox takes no money and is refused with environment: production." }}{{ end -}}
  {{- if $dev.enabled }}{{ fail "devdeps.enabled installs a database without a replica and cannot be true with environment: production." }}{{ end -}}
  {{- range $key, $networks := dict "limits" $v.limits.trustedProxies "edge" $v.edge.trustedProxies -}}
    {{- range $networks -}}
      {{- if regexMatch "^([0-9.]+/[0-7]|.*:.*/[0-6])$" . }}{{ fail (printf "%s.trustedProxies: %s is wider than any private network, and callers in it choose the address that limits count; it is refused with environment: production." $key .) }}{{ end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- range $key := list "checkoutURL" "apiURL" -}}
  {{- $url := get ($v.payments.shop | default dict) $key | default "" -}}
  {{- if and (has "shop" ($v.payments.providers | default list)) (not $url) }}{{ fail (printf "payments.shop.%s is required with payments.providers: shop." $key) }}{{ end -}}
  {{- if and $url (eq $v.environment "production") (not (hasPrefix "https://" $url)) }}{{ fail (printf "payments.shop.%s must be an https URL with environment: production." $key) }}{{ end -}}
{{- end -}}
{{- if has "stripe" ($v.payments.providers | default list) -}}
  {{- if not $v.publicURL }}{{ fail "publicURL is required with payments.providers: stripe, which leads buyers back." }}{{ end -}}
  {{- if not $v.payments.rate }}{{ fail "payments.rate is required with payments.providers: stripe, which takes 25 calls of each kind a second unless it grants more." }}{{ end -}}
  {{- $stripe := dig "existingSecret" "" ($v.payments.stripe | default dict) -}}
  {{- $given := include "flashsale.given" (include "flashsale.component" (dict "root" $ "name" "order") | fromYaml) | fromJsonArray -}}
  {{- if and (not $stripe) (not (and (has "PAYMENTS_STRIPE_KEY" $given) (has "PAYMENTS_STRIPE_WEBHOOK_SECRET" $given))) }}{{ fail "payments.stripe.existingSecret is required with payments.providers: stripe: a Secret with PAYMENTS_STRIPE_KEY and PAYMENTS_STRIPE_WEBHOOK_SECRET." }}{{ end -}}
  {{- if and $stripe (not $v.secrets.existingSecret) (eq $stripe (include "flashsale.secretName" .)) }}{{ fail (printf "payments.stripe.existingSecret: %s is the Secret that the chart generates, which has no keys of Stripe: name another one." $stripe) }}{{ end -}}
{{- end -}}
{{- if $v.payments.sandbox }}{{ fail "payments.sandbox is no longer read: remove it and set payments.providers to [sandbox]." }}{{ end -}}
{{- if and $mysql $v.mysql.existingSecret }}{{ fail "mysql.existingSecret names another database while devdeps.mysql is enabled: set devdeps.mysql.enabled to false, or remove the Secret." }}{{ end -}}
{{- $given := true -}}
{{- range $name, $facts := include "flashsale.facts" . | fromYaml -}}
  {{- $c := include "flashsale.component" (dict "root" $ "name" $name) | fromYaml -}}
  {{- if and $facts.mysql (not (has "MYSQL_DSN" (include "flashsale.given" $c | fromJsonArray))) }}{{ $given = false }}{{ end -}}
{{- end -}}
{{- if not (or $mysql $v.mysql.existingSecret $given) }}{{ fail "mysql.existingSecret is required: a Secret with ORDER_DSN and INVENTORY_DSN. For a test, use the bundled dependencies: -f values-kind.yaml." }}{{ end -}}
{{- if and $redis $v.redis.addresses }}{{ fail "redis.addresses names another Redis while devdeps.redis is enabled: set devdeps.redis.enabled to false, or remove the addresses." }}{{ end -}}
{{- if and (not $redis) (not $v.redis.addresses) }}{{ fail "redis.addresses is required: host:port of Redis." }}{{ end -}}
{{- $tls := $v.redis.tls | default dict -}}
{{- if and $redis (or $v.redis.mode $v.redis.existingSecret $tls.enabled) }}{{ fail "redis.mode, redis.existingSecret and redis.tls are for another Redis than that of devdeps.redis: set devdeps.redis.enabled to false, or remove them." }}{{ end -}}
{{- range $group, $r := dict "redis" $v.redis "limits.redis" $v.limits.redis -}}
  {{- $mode := $r.mode | default "" -}}
  {{- $several := gt (len ($r.addresses | default list)) 1 -}}
  {{- $master := dig "master" "" ($r.sentinel | default dict) -}}
  {{- if and $several (eq $mode "single") }}{{ fail (printf "%s.mode: single must not have several %s.addresses." $group $group) }}{{ end -}}
  {{- if and (eq $mode "sentinel") (not $master) }}{{ fail (printf "%s.sentinel.master is required with %s.mode: sentinel." $group $group) }}{{ end -}}
  {{- if and (ne $mode "sentinel") $master }}{{ fail (printf "%s.sentinel.master needs %s.mode: sentinel." $group $group) }}{{ end -}}
  {{- if and (ne (int $r.db) 0) (or (eq $mode "cluster") (and $several (not $mode))) }}{{ fail (printf "%s.db must be 0 with a cluster, which has one database: with %s.mode: cluster, or with several %s.addresses and no mode." $group $group $group) }}{{ end -}}
{{- end -}}
{{- if and (or (ne (int $v.limits.redis.db) 0) $v.limits.redis.mode) (not $v.limits.redis.addresses) }}{{ fail "limits.redis.db and limits.redis.mode need limits.redis.addresses." }}{{ end -}}
{{- if and (eq $v.environment "production") (not $tls.enabled) -}}
  {{- range $group, $r := dict "redis" $v.redis "limits.redis" $v.limits.redis -}}
    {{- $addresses := $r.addresses | default $v.redis.addresses -}}
    {{- range $addresses }}{{ if and $r.existingSecret (not (regexMatch "^(127[.]|localhost:|\\[::1\\]:)" .)) }}{{ fail (printf "redis.tls.enabled is required with %s.existingSecret and environment: production: the password would go to %s in plain text." $group .) }}{{ end }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- if and $tls.serverName (not $tls.enabled) }}{{ fail "redis.tls.serverName needs redis.tls.enabled." }}{{ end -}}
{{- if and $rocketmq $v.rocketmq.nameServers }}{{ fail "rocketmq.nameServers names others while devdeps.rocketmq is enabled: set devdeps.rocketmq.enabled to false, or remove them." }}{{ end -}}
{{- if and $rocketmq $v.rocketmq.existingSecret }}{{ fail "rocketmq.existingSecret is for another RocketMQ than that of devdeps.rocketmq: set devdeps.rocketmq.enabled to false, or remove it." }}{{ end -}}
{{- if and (not $rocketmq) (not $v.rocketmq.nameServers) }}{{ fail "rocketmq.nameServers is required: host:port of the name servers." }}{{ end -}}
{{- if and $v.auth.jwksURL $v.auth.devTokens }}{{ fail "auth.devTokens signs with the shared secret and cannot be true with auth.jwksURL." }}{{ end -}}
{{- if and (eq $v.environment "production") $v.auth.jwksURL (not (hasPrefix "https://" $v.auth.jwksURL)) }}{{ fail "auth.jwksURL must be an https URL with environment: production." }}{{ end -}}
{{- if and (eq $v.environment "production") $v.auth.jwksURL (not $v.auth.audience) }}{{ fail "auth.audience is required with auth.jwksURL and environment: production: the provider signs tokens for other systems with the same keys." }}{{ end -}}
{{- if and (eq $v.environment "production") $v.auth.jwksURL (not $v.auth.issuer) }}{{ fail "auth.issuer is required with auth.jwksURL and environment: production." }}{{ end -}}
{{- $ttl := dig "ttl" "12h" ($v.session | default dict) -}}
{{- $lasts := add (mul 3600 (regexFind "[0-9]+h" $ttl | trimSuffix "h" | int64)) (mul 60 (regexFind "[0-9]+m" $ttl | trimSuffix "m" | int64)) (regexFind "[0-9]+s" $ttl | trimSuffix "s" | int64) -}}
{{- if or (lt $lasts 60) (gt $lasts 2592000) }}{{ fail (printf "session.ttl is %s and must be 1m to 720h." $ttl) }}{{ end -}}
{{- $oidc := $v.oidc | default dict -}}
{{- range $key := list "redirectURL" "logoutURL" -}}
  {{- if get $oidc $key }}{{ fail (printf "oidc.%s is no longer read: remove it and set publicURL to the address of the pages, such as https://shop.example.com." $key) }}{{ end -}}
{{- end -}}
{{- if and $v.publicURL (eq $v.environment "production") (not (hasPrefix "https://" $v.publicURL)) }}{{ fail "publicURL must be an https URL with environment: production." }}{{ end -}}
{{- if $oidc.issuer -}}
  {{- if not $oidc.clientID }}{{ fail "oidc.clientID is required with oidc.issuer." }}{{ end -}}
  {{- if not $v.publicURL }}{{ fail "publicURL is required with oidc.issuer: the address of the pages, such as https://shop.example.com." }}{{ end -}}
  {{- if and (eq $v.environment "production") (not (hasPrefix "https://" $oidc.issuer)) }}{{ fail "oidc.issuer must be an https URL with environment: production." }}{{ end -}}
  {{- if and $oidc.existingSecret (not $v.secrets.existingSecret) (eq $oidc.existingSecret (include "flashsale.secretName" .)) }}{{ fail (printf "oidc.existingSecret: %s is the Secret that the chart generates, which has no OIDC_CLIENT_SECRET: name another one." $oidc.existingSecret) }}{{ end -}}
  {{- $egress := $v.networkPolicy.egress -}}
  {{- if and $v.networkPolicy.enabled $egress.enabled (not $egress.to) (not $egress.toIdentityProvider) }}{{ fail "networkPolicy.egress.toIdentityProvider is required with oidc.issuer: seckill could not reach the identity provider." }}{{ end -}}
{{- else -}}
  {{- range $key := list "clientID" "existingSecret" -}}
    {{- if get $oidc $key }}{{ fail (printf "oidc.%s is set and oidc.issuer is not." $key) }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- if and $v.edge.tls.secretName (eq (int $v.edge.tls.port) (int $v.edge.service.port)) }}{{ fail "edge.tls.port and edge.service.port are the same." }}{{ end -}}
{{- if and (ne $v.edge.service.type "NodePort") (ne (int $v.edge.service.nodePort) 0) }}{{ fail "edge.service.nodePort needs edge.service.type: NodePort." }}{{ end -}}
{{- if $v.ingress.enabled -}}
  {{- if not $v.edge.enabled }}{{ fail "ingress.enabled needs edge.enabled: the Ingress routes to the edge." }}{{ end -}}
  {{- if not $v.ingress.host }}{{ fail "ingress.host is required with ingress.enabled." }}{{ end -}}
{{- end -}}
{{- include "flashsale.validateEdge" . -}}
{{- if and (dig "enabled" false ($v.monitoring | default dict)) $v.networkPolicy.enabled (not $v.networkPolicy.metricsFrom) }}{{ fail "networkPolicy.metricsFrom is required with monitoring.enabled: Prometheus could not reach the admin ports." }}{{ end -}}
{{- if and (eq $v.environment "production") (not (regexMatch "^(localhost|[^/]*[.:][^/]*)(/|$)" $v.image.prefix)) }}{{ fail (printf "image.prefix: %s has no registry and means docker.io/%s; with environment: production it must name one, such as registry.example.com/%s." $v.image.prefix $v.image.prefix $v.image.prefix) }}{{ end -}}
{{- range $name, $_ := include "flashsale.facts" . | fromYaml -}}
  {{- $c := include "flashsale.component" (dict "root" $ "name" $name) | fromYaml -}}
  {{- include "flashsale.validatePod" (dict "root" $ "where" (printf "components.%s" $name) "own" $c) -}}
  {{- range $c.sidecars -}}
    {{- if and $c.autoscaling.enabled (not (dig "resources" "requests" "cpu" "" .)) }}{{ fail (printf "components.%s.autoscaling needs resources.requests.cpu of the sidecar %s: its target is a share of what the whole pod requests." $name .name) }}{{ end -}}
  {{- end -}}
  {{- include "flashsale.validateRedisUsers" (dict "root" $ "name" $name "own" $c) -}}
  {{- $env := $c.env | default dict -}}
  {{- range $c.extraEnv }}{{ $env = set $env .name (.value | default "") }}{{ end -}}
  {{- $memory := toString (dig "limits" "memory" "" $c.resources) -}}
  {{- if and $memory (not (regexMatch "^[0-9]+(Mi|Gi)$" $memory)) }}{{ fail (printf "components.%s.resources.limits.memory: %s must be whole Mi or Gi: the Go heap is limited to nine tenths of it." $name $memory) }}{{ end -}}
  {{- if and (eq $v.environment "production") (has (lower (toString (dig "PPROF" "" $env))) (list "true" "t" "1")) }}{{ fail (printf "components.%s.env.PPROF cannot be true with environment: production: every pod of the cluster could read the memory of its pods." $name) }}{{ end -}}
  {{- if and (eq $v.environment "production") (dig "TEST_TIMERS" "" $env) }}{{ fail (printf "components.%s.env.TEST_TIMERS cannot be set with environment: production: it is for tests." $name) }}{{ end -}}
  {{- include "flashsale.validateAutoscaling" (dict "where" (printf "components.%s" $name) "own" $c) -}}
{{- end -}}
{{- include "flashsale.validatePod" (dict "root" . "where" "jobs" "own" (include "flashsale.jobOwn" (dict "root" . "own" dict) | fromYaml)) -}}
{{- end }}

{{/*
Checks that each user of Redis has a password: of a Secret, or one that an installation adds, by envFrom too.
dict "root" $ "name" COMPONENT "own" VALUES
*/}}
{{- define "flashsale.validateRedisUsers" -}}
{{- $given := include "flashsale.given" .own | fromJsonArray -}}
{{- $users := dict "limits.redis" (list .root.Values.limits.redis "LIMIT_REDIS_PASSWORD") -}}
{{- if include "flashsale.gateUser" . }}{{ $_ := set $users "redis" (list .root.Values.redis "REDIS_PASSWORD") }}{{ end -}}
{{- $component := .name }}{{ $added := .own.envFrom -}}
{{- range $group, $u := $users -}}
  {{- $r := index $u 0 }}{{ $password := index $u 1 -}}
  {{- if and $r.username (not (or $r.existingSecret $added (has $password $given))) }}{{ fail (printf "%s.username needs %s.existingSecret, a Secret with %s, or %s in components.%s.extraEnv." $group $group $password $password $component) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* Checks the values of an autoscaler. dict "where" PATH "own" VALUES */}}
{{- define "flashsale.validateAutoscaling" -}}
{{- with .own.autoscaling -}}
  {{- if gt (int .min) (int .max) }}{{ fail (printf "%s.autoscaling: min (%v) is above max (%v)." $.where .min .max) }}{{ end -}}
  {{- if and .enabled (not (dig "requests" "cpu" "" $.own.resources)) }}{{ fail (printf "%s.autoscaling needs resources.requests.cpu: its target is a share of that." $.where) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* Checks that the edge counts callers and not proxies, and that it has memory for its connections. */}}
{{- define "flashsale.validateEdge" -}}
{{- $e := .Values.edge -}}
{{- include "flashsale.validateAutoscaling" (dict "where" "edge" "own" $e) -}}
{{- if and $e.enabled (not $e.trustedProxies) -}}
  {{- $limited := gt (max $e.limits.requestsPerSecond $e.limits.connections $e.limits.pages.requestsPerSecond $e.limits.pages.connections) 0 -}}
  {{- if and .Values.ingress.enabled $limited }}{{ fail "edge.trustedProxies is required with ingress.enabled: all buyers would share the limits of the Ingress controller's address. Set it to the network of the controller's pods, or all of edge.limits to 0." }}{{ end -}}
  {{- if and (ne $e.service.type "ClusterIP") (eq $e.service.externalTrafficPolicy "Cluster") $limited }}{{ fail (printf "edge.service.externalTrafficPolicy: Cluster with type %s hides the callers' addresses, and all buyers would share the limits of the nodes'. Set it to Local, or edge.trustedProxies to the addresses of a balancer that sends X-Forwarded-For, or all of edge.limits to 0." $e.service.type) }}{{ end -}}
{{- end -}}
{{- if and $e.enabled $e.tls.secretName -}}
  {{- $limit := toString (dig "limits" "memory" "" $e.resources) -}}
  {{- $has := include "flashsale.memoryMi" $e.resources -}}
  {{- if and $limit (not $has) }}{{ fail (printf "edge.resources.limits.memory: %s must be whole Mi or Gi with edge.tls.secretName: it is compared with the connections." $limit) }}{{ end -}}
  {{- $needs := div (mul $e.workers $e.connections 20) 1024 -}}
  {{- if and $limit (gt $needs (int $has)) }}{{ fail (printf "edge.connections: %d workers with %d connections take %dMi with TLS, 20 KiB each, which is above edge.resources.limits.memory (%s). Lower edge.connections, or raise the limit." (int $e.workers) (int $e.connections) $needs $limit) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* Checks what an installation adds to a pod. dict "root" $ "where" PATH "own" VALUES */}}
{{- define "flashsale.validatePod" -}}
{{- $where := .where -}}
{{- $chart := list "limits" "ca" "client-certificate" -}}
{{- $volumes := list -}}
{{- range .own.volumes -}}
  {{- if has .name $chart }}{{ fail (printf "%s.volumes: the chart has a volume %s; choose another name." $where .name) }}{{ end -}}
  {{- if has .name $volumes }}{{ fail (printf "%s.volumes: two have the name %s." $where .name) }}{{ end -}}
  {{- $volumes = append $volumes .name -}}
{{- end -}}
{{- if include "flashsale.caConfigMap" .root }}{{ $volumes = append $volumes "ca" }}{{ end -}}
{{- if include "flashsale.clientSecret" .root }}{{ $volumes = append $volumes "client-certificate" }}{{ end -}}
{{- range .own.volumeMounts -}}
  {{- if not (has .name $volumes) }}{{ fail (printf "%s.volumeMounts: %s is the name of no volume in %s.volumes." $where .name $where) }}{{ end -}}
{{- end -}}
{{- $containers := concat (list "migrate" "migrations" "topics") (include "flashsale.facts" . | fromYaml | keys) -}}
{{- range .own.sidecars -}}
  {{- if has .name $containers }}{{ fail (printf "%s.sidecars: another container has the name %s; choose another one." $where .name) }}{{ end -}}
  {{- $containers = append $containers .name -}}
  {{- $sidecar := .name -}}
  {{- range .volumeMounts -}}
    {{- if not (has .name $volumes) }}{{ fail (printf "%s.sidecars: %s mounts %s, which is the name of no volume in %s.volumes." $where $sidecar .name $where) }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- if include "flashsale.caConfigMap" .root -}}
  {{- $names := keys (.own.env | default dict) -}}
  {{- range .own.extraEnv }}{{ $names = append $names .name }}{{ end -}}
  {{- if has "SSL_CERT_DIR" $names }}{{ fail (printf "%s sets SSL_CERT_DIR, which tls.caConfigMap sets too; remove one of them." $where) }}{{ end -}}
{{- end -}}
{{- end }}
