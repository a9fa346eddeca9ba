{{/* Problem document of a response that the edge makes itself. dict "status" STATUS "title" TITLE "code" CODE */}}
{{- define "flashsale.problem" -}}
{"type":"about:blank","title":"{{ .title }}","status":{{ .status }},"code":"{{ .code }}"}
{{- end }}

{{/* Page of a response that the edge makes itself; it reloads itself after 5 s. dict "en" TEXT "zh" TEXT */}}
{{- define "flashsale.page" -}}
<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="refresh" content="5"><title>{{ .en }}</title>
<style>:root{color-scheme:light dark}body{margin:15vh auto;max-width:32rem;padding:0 16px;font:20px/1.5 system-ui}</style>
<p>{{ .en }}</p><p lang="zh">{{ .zh }}</p>
{{- end }}

{{/* Limits by address of a location. dict "zone" ZONE "limits" LIMITS */}}
{{- define "flashsale.nginxLimits" -}}
{{- if gt (int .limits.requestsPerSecond) 0 }}
limit_req zone={{ .zone }}_rate burst={{ int .limits.burst }} nodelay;
{{- end }}
{{- if gt (int .limits.connections) 0 }}
limit_conn {{ .zone }}_connections {{ int .limits.connections }};
{{- end }}
{{- end }}

{{/*
Streams that an HTTP/2 connection may have at a time: 100, and fewer than each limit of connections. LIMITS of the edge
*/}}
{{- define "flashsale.streams" -}}
{{- $streams := 100 -}}
{{- range list .connections .pages.connections -}}
{{- if gt (int .) 0 }}{{ $streams = min $streams (sub (int .) 1) }}{{ end -}}
{{- end -}}
{{ max 1 $streams }}
{{- end }}

{{/*
Directives of a location whose responses are the same for every caller. seckill gets no header of the caller, so that
no cookie, token or other header of one caller makes the response that all others get. Headers of the response that
belong to the first caller are removed. Without "valid", the response's Cache-Control decides whether it is kept, and
how long.
dict "zone" ZONE "key" KEY "accept" TYPE "encoding" ENCODING "stale" REASONS "valid" STATUSES AND TIME
     "patience" SECONDS for the response and, while another request fetches it, for that one
*/}}
{{- define "flashsale.nginxShared" -}}
proxy_pass http://seckill;
proxy_read_timeout {{ .patience | default 5 }}s;
proxy_pass_request_headers off;
proxy_set_header Connection "";
proxy_set_header Host $proxy_host;
proxy_set_header Accept {{ .accept }};
proxy_set_header Accept-Encoding {{ .encoding }};
proxy_set_header X-Forwarded-For $remote_addr; # for limits by address
proxy_hide_header Set-Cookie;
proxy_hide_header traceparent;
proxy_hide_header RateLimit;
proxy_hide_header RateLimit-Policy;
# The key holds all that the response depends on.
proxy_ignore_headers Vary{{ if .valid }} Cache-Control Expires{{ end }};
proxy_cache {{ .zone }};
proxy_cache_key {{ .key }};
{{- with .valid }}
proxy_cache_valid {{ . }};
{{- end }}
# One request at a time fetches a response. Meanwhile others get the previous one, or wait if there is none.
proxy_cache_lock on;
proxy_cache_lock_timeout {{ .patience | default 2 }}s;
{{- with .patience }}
proxy_cache_lock_age {{ . }}s;
{{- end }}
proxy_cache_use_stale {{ .stale }};
{{- end }}

{{/*
The configuration of the edge, for nginx 1.22 or later.
  root        the chart's context: limits, workers and proxies come from its values
  listen      addresses of the public listener
  tls         addresses of the public listener with TLS and HTTP/2; may be none
  certificate folder of its tls.crt and tls.key
  health      addresses of the listener for probes; may be none
  dir         folder of the pid, the cache and temporary files
  log, access files of error lines and of lines about responses
  counts      address of the process that counts the responses; may be none
  servers     address of each service, by name
*/}}
{{- define "flashsale.nginx" -}}
{{- $e := .root.Values.edge -}}
{{- $pages := $e.limits.pages -}}
{{- $api := include "flashsale.nginxLimits" (dict "zone" "api" "limits" $e.limits) | trim -}}
{{- if $api }}{{ $api = nindent 12 $api }}{{ end -}}
{{- $page := include "flashsale.nginxLimits" (dict "zone" "pages" "limits" $pages) | trim -}}
{{- if $page }}{{ $page = nindent 12 $page }}{{ end -}}
{{- $sales := dict "zone" "sales" "key" "$uri" "accept" "application/json" "encoding" "\"\"" "stale" "updating http_429"
      "valid" "200 404 1s" -}}
{{- $document := dict "zone" "pages" "key" "\"$uri $encoding\"" "accept" "text/html" "encoding" "$encoding"
      "stale" "updating error timeout invalid_header http_429 http_500 http_502 http_503 http_504" -}}
{{- $tickets := dict "zone" "tickets" "key" "$uri" "accept" "text/plain" "encoding" "\"\"" "stale" "updating" "valid" "200 10s"
      "patience" 30 }}
worker_processes {{ $e.workers }};
# A connection takes a descriptor, and so does one to a service; files of the cache and logs take the rest.
worker_rlimit_nofile {{ add (int $e.connections) 512 }};
pid "{{ .dir }}/nginx.pid";
# Log lines of level "error" contain URLs, and the path of a purchase is a secret.
error_log "{{ .log }}" crit;
# Event streams end with the process; browsers reconnect.
worker_shutdown_timeout 15s;

events {
    worker_connections {{ int $e.connections }};
    multi_accept on;
}

http {
    server_tokens off;
    sendfile on;
    client_body_temp_path "{{ .dir }}/body";
    proxy_temp_path "{{ .dir }}/proxy";
    fastcgi_temp_path "{{ .dir }}/fastcgi";
    uwsgi_temp_path "{{ .dir }}/uwsgi";
    scgi_temp_path "{{ .dir }}/scgi";
    # Sales, for a second each. A sale without viewers is dropped soon, so that its next viewers do not get an old
    # response while the first of them fetches a new one.
    proxy_cache_path "{{ .dir }}/sales" levels=1:2 keys_zone=sales:4m max_size=64m inactive=5s use_temp_path=off;
    # Pages and their assets. They are kept for a day, for the case that no process of seckill responds.
    proxy_cache_path "{{ .dir }}/pages" levels=1:2 keys_zone=pages:4m max_size=64m inactive=24h use_temp_path=off;

    # Lists of draw tickets, of up to 65 MB, for 10 s each: a room that Redis has lost draws again. Slow readers share a file.
    proxy_cache_path "{{ .dir }}/tickets" levels=1:2 keys_zone=tickets:1m max_size=160m inactive=10m use_temp_path=off;

    # Logs only responses with status 5xx, and the upstream instead of the URL.
    map $status $wrong { ~^5 1; default 0; }
    log_format short escape=json '{"time":"$time_iso8601","status":$status,"method":"$request_method","to":"$upstream_addr",'
        '"upstream_status":"$upstream_status","seconds":$request_time}';
    access_log "{{ .access }}" short if=$wrong;
{{- with .counts }}
    log_format counted '$status $limit_req_status $limit_conn_status';
    access_log syslog:server={{ . }},nohostname,tag=edge counted;
{{- end }}

    # seckill has each page in three encodings. Callers write this header in thousands of ways; each would be another
    # response in the cache.
    map $http_accept_encoding $encoding {
        "~*(^|,)\s*br\s*(,|$|;(?!\s*q=0(\.0*)?\s*(,|$)))" br;
        "~*(^|,)\s*gzip\s*(,|$|;(?!\s*q=0(\.0*)?\s*(,|$)))" gzip;
        default "";
    }

    keepalive_timeout 75s;
    keepalive_requests 10000;
{{- if .tls }}
    ssl_certificate "{{ .certificate }}/tls.crt";
    ssl_certificate_key "{{ .certificate }}/tls.key";
    ssl_protocols TLSv1.2 TLSv1.3;
    # A client that returns resumes its session, without a signature: by a ticket, or with TLS 1.2 also from the cache.
    ssl_session_cache shared:tls:16m;
    ssl_session_timeout 1h;
    ssl_buffer_size 4k;
    # limit_conn counts each stream as a connection: a browser waits for a stream, and is not refused.
    http2_max_concurrent_streams {{ include "flashsale.streams" $e.limits }};
{{- end }}
    # At the start of a large sale the handshake alone may take 10 s, on a device or on the edge.
    client_header_timeout 20s;
    client_body_timeout 10s;
    send_timeout 30s;
    reset_timedout_connection on;
    # The services refuse bodies over 64 KiB with a problem document; this limit is for much larger ones.
    client_max_body_size 256k;
    client_body_buffer_size 64k;
    large_client_header_buffers 4 16k;
    gzip on;
    gzip_vary on;
    gzip_types application/json application/problem+json application/javascript text/javascript text/css text/csv image/svg+xml;
    gzip_min_length 1000;
    gzip_proxied any;
{{- range $e.trustedProxies }}
    set_real_ip_from {{ . }};
{{- end }}
{{- if $e.trustedProxies }}
    real_ip_header X-Forwarded-For;
    real_ip_recursive on;
    # A proxy in front ends TLS and reports the scheme.
    geo $realip_remote_addr $by_proxy {
        default 0;
{{- range $e.trustedProxies }}
        {{ . }} 1;
{{- end }}
    }
    map "$by_proxy $http_x_forwarded_proto" $caller_scheme { "1 https" https; default $scheme; }
{{- end }}
{{- if print $api $page }}
    # Whom the limits count: an IPv4 address, also one that is mapped into IPv6, and the /64 of any other address.
    map $binary_remote_addr $limit_key {
        default $binary_remote_addr;
        "~(?s)^\x00{10}\xff\xff(?<mapped>.{4})$" $mapped;
        "~(?s)^(?<net>.{8}).{8}$" $net;
    }
{{- end }}
{{- range $zone, $limits := dict "api" $e.limits "pages" $pages }}
{{- if gt (int $limits.requestsPerSecond) 0 }}
    limit_req_zone $limit_key zone={{ $zone }}_rate:10m rate={{ int $limits.requestsPerSecond }}r/s;
{{- end }}
{{- if gt (int $limits.connections) 0 }}
    limit_conn_zone $limit_key zone={{ $zone }}_connections:10m;
{{- end }}
{{- end }}
{{- if print $api $page }}
    limit_req_status 429;
    limit_req_log_level info;
    limit_conn_status 429;
    limit_conn_log_level info;
{{- end }}
{{ range $name, $address := .servers }}
    # The same name twice: nginx repeats a failed attempt once, and the Service may route it to another pod.
    # Connections are closed after half a minute, so that new pods get their share.
    upstream {{ $name }} {
        server {{ $address }} max_fails=0;
        server {{ $address }} max_fails=0;
        keepalive 128;
        keepalive_time 30s;
        keepalive_timeout 20s;
        keepalive_requests 100000;
    }
{{- end }}

    proxy_http_version 1.1;
    proxy_set_header Connection "";
    # With its port: seckill compares it with the Origin of a browser's request.
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto {{ ternary "$caller_scheme" "$scheme" (not (empty $e.trustedProxies)) }};
    proxy_connect_timeout 2s;
    proxy_send_timeout 15s;
    proxy_read_timeout {{ $e.readTimeoutSeconds }}s;
    proxy_buffers 16 16k;
    # A buyer's response takes no disk: its service waits for a slow reader, up to its own time-out.
    proxy_max_temp_file_size 0;
    proxy_next_upstream_tries 3;
    proxy_next_upstream_timeout 10s;
{{- if .health }}

    # For the probes of this pod; no Service routes here, and no limit counts them.
    server {
{{- range .health }}
        listen {{ . }};
{{- end }}
        access_log off;
        location = /healthz { return 200 "ok\n"; }
        location / { return 404; }
    }
{{- end }}

    server {
        # Each worker accepts from a queue of its own. Linux shortens it to net.core.somaxconn.
{{- range .listen }}
        listen {{ . }} default_server reuseport backlog=16384;
{{- end }}
{{- range .tls }}
        listen {{ . }} ssl http2 default_server reuseport backlog=16384;
{{- end }}
        # Before this process, or its workers, terminate, each response closes its connection: if a connection were cut at
        # the moment of a request, its buyer would get no response. HTTP/2 has GOAWAY for that, and no such header.
        set $leaving "";
        if (-f "{{ .dir }}/leaving") { set $leaving close; }
{{- if .tls }}
        if (-f "{{ .dir }}/renewing") { set $leaving close; }
        if ($server_protocol = HTTP/2.0) { set $leaving ""; }
{{- end }}
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
        # The same for pages: a browser shows them.
{{- range $name, $about := dict
      "unavailable" (dict "status" 503 "en" "No answer right now. We try again in 5 s; nothing is bought twice." "zh" "暂无响应，5 秒后重试，不会重复购买。")
      "limited" (dict "status" 429 "en" "Very many people are here. We try again in 5 s." "zh" "人数过多，5 秒后自动重试。") }}
        location @page_{{ $name }} {
            internal;
            default_type "text/html; charset=utf-8";
            add_header Retry-After 5 always;
            add_header Connection $leaving always;
            add_header Cache-Control no-store always;
            add_header X-Content-Type-Options nosniff always;
            add_header Content-Security-Policy "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'" always;
            return {{ $about.status }} '{{ include "flashsale.page" $about | replace "\n" "" }}';
        }
{{- end }}

        # Internal routes. The public listeners do not have them either.
        location ~ ^/(internal|livez|readyz|metrics|debug)(/|$) {
            default_type application/problem+json;
            return 404 '{{ include "flashsale.problem" (dict "status" 404 "title" "Not Found" "code" "not_found") }}';
        }

        # Sales are cacheable for a second: this process requests each at most once a second, not once per viewer. The
        # same holds for a sale that does not exist: its viewers must neither reach seckill nor wait for each other.
        location = /v1/activities {
            {{- $page }}
            {{- include "flashsale.nginxShared" (set (deepCopy $sales) "key" "$uri$is_args$args") | nindent 12 }}
        }
        location ~ ^/v1/activities/[0-9]+$ {
            {{- $page }}
            rewrite ^(.*)$ $1? break;
            {{- include "flashsale.nginxShared" $sales | nindent 12 }}
        }
        # A buyer's page is one document, whatever its address: the script in it reads the address.
        location ~ ^/(orders|(sales|orders)/[^/]+)?$ {
            {{- $page }}
            error_page 502 504 = @page_unavailable;
            error_page 429 = @page_limited;
            rewrite ^ /? break;
            {{- include "flashsale.nginxShared" $document | nindent 12 }}
        }
        location ~ ^/(assets/[A-Za-z0-9._/-]+|favicon\.svg|v1/config)$ {
            {{- $page }}
            rewrite ^(.*)$ $1? break;
            {{- include "flashsale.nginxShared" (set (deepCopy $document) "accept" "*/*") | nindent 12 }}
        }
        location ~ ^/console(/|$) {
            {{- $page }}
            error_page 502 504 = @page_unavailable;
            error_page 429 = @page_limited;
            proxy_pass http://seckill;
        }
        # Browsers open these two: a page replaces a 429 of seckill too. A provider's code is valid once, so a callback is
        # not repeated here.
        location = /auth/login {
            {{- $page }}
            error_page 502 504 = @page_unavailable;
            error_page 429 = @page_limited;
            proxy_intercept_errors on;
            proxy_pass http://seckill;
        }
        location = /auth/callback {
            {{- $page }}
            error_page 502 504 = @page_unavailable;
            error_page 429 = @page_limited;
            proxy_intercept_errors on;
            proxy_pass http://seckill;
            proxy_next_upstream off;
        }
        # Scripts of the pages call the others.
        location ^~ /auth/ {
            {{- $page }}
            proxy_pass http://seckill;
        }
        location = /v1/time {
            {{- $page }}
            proxy_pass http://seckill;
        }
        location ~ ^/v1/activities/[0-9]+/room/tickets$ {
            {{- $page }}
            rewrite ^(.*)$ $1? break;
            {{- include "flashsale.nginxShared" $tickets | nindent 12 }}
        }
        # Event streams, each from the service of its prefix.
        location ~ ^/v1/activities/[^/]+/reservations/[^/]+/events$ {
            {{- $api }}
            proxy_pass http://seckill;
            proxy_buffering off;
            proxy_read_timeout 75s;
            gzip off;
        }
        location ~ ^/v1/merchant/activities/[^/]+/board/events$ {
            {{- $api }}
            proxy_pass http://inventory;
            proxy_buffering off;
            proxy_read_timeout 75s;
            gzip off;
        }
        # An answer to a challenge counts once, and joining a room takes a place: neither is repeated here.
        location ~ ^/v1/activities/[^/]+/(room|captchas/[^/]+/answers)$ {
            {{- $api }}
            proxy_pass http://seckill;
        }
        # Buyers' other calls may be repeated: a path never buys twice, payments have a key, and callbacks are idempotent.
        location ~ ^/v1/(activities|dev)/ {
            {{- $api }}
            proxy_pass http://seckill;
            proxy_next_upstream error timeout non_idempotent;
        }
        # A payment provider calls from few addresses, and a completed payment is never refused: no limit.
        location ~ ^/v1/payments/callbacks/[^/]+$ {
            proxy_pass http://order;
            proxy_next_upstream error timeout non_idempotent;
        }
        location ~ ^/v1/(orders|payments)(/|$) {
            {{- $api }}
            proxy_pass http://order;
            proxy_next_upstream error timeout non_idempotent;
        }
        # Merchants' calls may not: a repeated call would create a product twice.
        location ~ ^/v1/merchant(/|$) {
            {{- $api }}
            proxy_pass http://inventory;
            proxy_max_temp_file_size 64m; # an export ends in time, also on a slow line
        }
        location / {
            {{- $api }}
            proxy_pass http://seckill;
        }
    }
}
{{- end }}
