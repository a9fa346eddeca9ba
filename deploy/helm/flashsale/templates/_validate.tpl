{{/* What the schema cannot say: each wrong combination stops with a sentence. */}}
{{- define "flashsale.validate" -}}
{{- $v := .Values -}}
{{- $dev := $v.devdeps -}}
{{- $mysql := and $dev.enabled (dig "mysql" "enabled" true $dev) -}}
{{- $redis := and $dev.enabled (dig "redis" "enabled" true $dev) -}}
{{- $rocketmq := and $dev.enabled (dig "rocketmq" "enabled" true $dev) -}}
{{- if eq $v.environment "production" -}}
  {{- if $v.auth.devTokens }}{{ fail "auth.devTokens gives anybody a token and cannot be true with environment: production." }}{{ end -}}
  {{- if $v.payments.sandbox }}{{ fail "payments.sandbox takes no money and cannot be true with environment: production." }}{{ end -}}
  {{- if $dev.enabled }}{{ fail "devdeps.enabled brings one database without a copy and cannot be true with environment: production." }}{{ end -}}
  {{- range $v.limits.trustedProxies -}}
    {{- if regexMatch "^([0-9.]+/[0-7]|.*:.*/[0-6])$" . }}{{ fail (printf "limits.trustedProxies: %s is wider than any private network and refused with environment: production, as callers in it choose the address that limits count." .) }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- if and $mysql $v.mysql.existingSecret }}{{ fail "mysql.existingSecret names another database while the bundled one is on: set devdeps.mysql.enabled to false, or leave the Secret out." }}{{ end -}}
{{- if and (not $mysql) (not $v.mysql.existingSecret) }}{{ fail "mysql.existingSecret is needed: a Secret with ORDER_DSN and INVENTORY_DSN. To try out, take the bundled parts: -f values-kind.yaml." }}{{ end -}}
{{- if and $redis $v.redis.addresses }}{{ fail "redis.addresses names another Redis while the bundled one is on: set devdeps.redis.enabled to false, or leave the addresses out." }}{{ end -}}
{{- if and (not $redis) (not $v.redis.addresses) }}{{ fail "redis.addresses is needed: host:port of Redis." }}{{ end -}}
{{- if and (gt (len ($v.redis.addresses | default list)) 1) (ne (int $v.redis.db) 0) }}{{ fail "redis.db must be 0 with several redis.addresses, as a cluster has one database." }}{{ end -}}
{{- if and (ne (int $v.limits.redis.db) 0) (ne (len ($v.limits.redis.addresses | default list)) 1) }}{{ fail "limits.redis.db needs exactly one address in limits.redis.addresses." }}{{ end -}}
{{- if and $rocketmq $v.rocketmq.nameServers }}{{ fail "rocketmq.nameServers names others while the bundled RocketMQ is on: set devdeps.rocketmq.enabled to false, or leave them out." }}{{ end -}}
{{- if and (not $rocketmq) (not $v.rocketmq.nameServers) }}{{ fail "rocketmq.nameServers is needed: host:port of the name servers." }}{{ end -}}
{{- if and $v.auth.jwksURL $v.auth.devTokens }}{{ fail "auth.devTokens signs with the shared secret and cannot be true with auth.jwksURL." }}{{ end -}}
{{- if and (eq $v.environment "production") $v.auth.jwksURL (not (hasPrefix "https://" $v.auth.jwksURL)) }}{{ fail "auth.jwksURL must be an https URL with environment: production." }}{{ end -}}
{{- if and (ne $v.edge.service.type "NodePort") (ne (int $v.edge.service.nodePort) 0) }}{{ fail "edge.service.nodePort needs edge.service.type: NodePort." }}{{ end -}}
{{- if $v.ingress.enabled -}}
  {{- if not $v.edge.enabled }}{{ fail "ingress.enabled needs edge.enabled: the Ingress leads to the edge." }}{{ end -}}
  {{- if not $v.ingress.host }}{{ fail "ingress.host is needed with ingress.enabled." }}{{ end -}}
{{- end -}}
{{- range $name, $_ := include "flashsale.facts" . | fromYaml -}}
  {{- $c := include "flashsale.component" (dict "root" $ "name" $name) | fromYaml -}}
  {{- $memory := toString (dig "limits" "memory" "" $c.resources) -}}
  {{- if and $memory (not (regexMatch "^[0-9]+(Mi|Gi)$" $memory)) }}{{ fail (printf "components.%s.resources.limits.memory: %s must be whole Mi or Gi, as the Go heap is kept below nine tenths of it." $name $memory) }}{{ end -}}
  {{- if and (eq $v.environment "production") (has (lower (toString (dig "env" "PPROF" "" $c))) (list "true" "t" "1")) }}{{ fail (printf "components.%s.env.PPROF cannot be true with environment: production: every pod of the cluster could read the memory of its pods." $name) }}{{ end -}}
  {{- if gt (int $c.autoscaling.min) (int $c.autoscaling.max) }}{{ fail (printf "components.%s.autoscaling: min (%v) is above max (%v)." $name $c.autoscaling.min $c.autoscaling.max) }}{{ end -}}
  {{- if and $c.autoscaling.enabled (not (dig "requests" "cpu" "" $c.resources)) }}{{ fail (printf "components.%s.autoscaling needs resources.requests.cpu, which it is a share of." $name) }}{{ end -}}
{{- end -}}
{{- end }}
