{{/* Problem document of a response that the edge makes itself. dict "status" STATUS "title" TITLE "code" CODE */}}
{{- define "flashsale.problem" -}}
{"type":"about:blank","title":"{{ .title }}","status":{{ .status }},"code":"{{ .code }}"}
{{- end }}

{{- define "flashsale.nginx" -}}
{{- $e := .Values.edge -}}
{{- $byRate := gt (float64 $e.limits.requestsPerSecond) 0.0 -}}
{{- $byConnection := gt (int $e.limits.connections) 0 -}}
worker_processes {{ $e.workers }};
pid /tmp/nginx.pid;
# Log lines of level "error" contain URLs, and the path of a purchase is a secret.
error_log /dev/stderr crit;
# Event streams end with the pod; browsers reconnect.
worker_shutdown_timeout 15s;

events {
    worker_connections {{ int $e.connections }};
    multi_accept on;
}

http {
    server_tokens off;
    client_body_temp_path /tmp/body;
    proxy_temp_path /tmp/proxy;
    fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi;
    scgi_temp_path /tmp/scgi;
    proxy_cache_path /tmp/cache levels=1:2 keys_zone=views:4m max_size=64m inactive=1m use_temp_path=off;

    # Logs only responses with status 5xx, and the upstream instead of the URL.
    map $status $wrong { ~^5 1; default 0; }
    log_format short escape=json '{"time":"$time_iso8601","status":$status,"method":"$request_method","to":"$upstream_addr",'
        '"upstream_status":"$upstream_status","seconds":$request_time}';
    access_log /dev/stdout short if=$wrong;

    keepalive_timeout 75s;
    keepalive_requests 10000;
    client_header_timeout 10s;
    client_body_timeout 10s;
    send_timeout 30s;
    reset_timedout_connection on;
    # The services refuse bodies over 64 KiB with a problem document; this limit is for much larger ones.
    client_max_body_size 256k;
    client_body_buffer_size 64k;
    large_client_header_buffers 4 16k;
    gzip on;
    gzip_types application/json application/problem+json application/javascript text/css;
    gzip_min_length 1000;
    gzip_proxied any;
{{- range $e.trustedProxies }}
    set_real_ip_from {{ . }};
{{- end }}
{{- if $e.trustedProxies }}
    real_ip_header X-Forwarded-For;
    real_ip_recursive on;
{{- end }}
{{- if $byRate }}
    limit_req_zone $binary_remote_addr zone=rate:10m rate={{ int $e.limits.requestsPerSecond }}r/s;
    limit_req zone=rate burst={{ int $e.limits.burst }} nodelay;
    limit_req_status 429;
    limit_req_log_level info;
{{- end }}
{{- if $byConnection }}
    limit_conn_zone $binary_remote_addr zone=connections:10m;
    limit_conn connections {{ $e.limits.connections }};
    limit_conn_status 429;
    limit_conn_log_level info;
{{- end }}
{{ range $name, $facts := include "flashsale.facts" . | fromYaml }}
    # The same name twice: nginx repeats a failed attempt once, and the Service may route it to another pod.
    # Connections are closed after half a minute, so that new pods get their share.
    upstream {{ $name }} {
        server {{ include "flashsale.fullname" $ }}-{{ $name }}:{{ $facts.port }} max_fails=0;
        server {{ include "flashsale.fullname" $ }}-{{ $name }}:{{ $facts.port }} max_fails=0;
        keepalive 128;
        keepalive_time 30s;
        keepalive_timeout 20s;
        keepalive_requests 100000;
    }
{{- end }}

    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_connect_timeout 2s;
    proxy_send_timeout 15s;
    proxy_read_timeout {{ $e.readTimeoutSeconds }}s;
    proxy_buffers 16 16k;
    proxy_next_upstream_tries 3;
    proxy_next_upstream_timeout 10s;

    # For the probes of this pod; no Service routes here.
    server {
        listen 8081;
        access_log off;
{{- if $byRate }}
        limit_req zone=rate burst=100000 nodelay;
{{- end }}
        location = /healthz { return 200 "ok\n"; }
        location / { return 404; }
    }

    server {
        listen 8080 default_server backlog=4096;
        # While this pod terminates, each response closes its connection: if a connection were cut at the moment of a
        # request, its buyer would get no response.
        set $leaving "";
        if (-f /tmp/leaving) { set $leaving close; }
        add_header Connection $leaving always;
        # Without a response of the service the outcome is unknown. The API uses 503 for that: the call may be
        # repeated.
        error_page 502 504 = @unavailable;
        error_page 429 = @limited;
        error_page 413 = @too_large;
        location @unavailable {
            internal;
            default_type application/problem+json;
            add_header Retry-After 1 always;
            add_header Connection $leaving always;
            add_header Cache-Control no-store always;
            return 503 '{{ include "flashsale.problem" (dict "status" 503 "title" "Service Unavailable" "code" "unavailable") }}';
        }
        location @limited {
            internal;
            default_type application/problem+json;
            add_header Retry-After 1 always;
            add_header Connection $leaving always;
            add_header Cache-Control no-store always;
            return 429 '{{ include "flashsale.problem" (dict "status" 429 "title" "Too Many Requests" "code" "rate_limited") }}';
        }
        location @too_large {
            internal;
            default_type application/problem+json;
            return 413 '{{ include "flashsale.problem" (dict "status" 413 "title" "Content Too Large" "code" "body_too_large") }}';
        }

        # Internal routes. The public listeners do not have them either.
        location ~ ^/(internal|livez|readyz|metrics|debug)(/|$) {
            default_type application/problem+json;
            return 404 '{{ include "flashsale.problem" (dict "status" 404 "title" "Not Found" "code" "not_found") }}';
        }

        # The list of sales is cacheable: each pod requests it once, not once per buyer. A single sale is not cached
        # here: its response must be current, and with this lock buyers would wait for each other.
        location = /v1/activities {
            proxy_pass http://seckill;
            proxy_cache views;
            proxy_cache_lock on;
            proxy_cache_lock_timeout 2s;
            proxy_cache_key $request_method$uri$is_args$args;
            # A cached traceparent belongs to the first caller.
            proxy_hide_header traceparent;
        }
        location ~ ^/v1/activities/[^/]+/reservations/[^/]+/events$ {
            proxy_pass http://seckill;
            proxy_buffering off;
            proxy_read_timeout 75s;
            gzip off;
        }
        # Buyers' calls may be repeated: a path never buys twice, payments have a key, and callbacks are idempotent.
        location ~ ^/v1/(activities|dev)/ {
            proxy_pass http://seckill;
            proxy_next_upstream error timeout non_idempotent;
        }
        location ~ ^/v1/(orders|payments)(/|$) {
            proxy_pass http://order;
            proxy_next_upstream error timeout non_idempotent;
        }
        # Merchants' calls may not: a repeated call would create a product twice.
        location ~ ^/v1/merchant(/|$) {
            proxy_pass http://inventory;
        }
        location / {
            proxy_pass http://seckill;
        }
    }
}
{{- end }}
