# shellcheck shell=bash disable=SC2154
# The edge: nginx with the chart's configuration, one origin for pages and API. Sourced by scripts/dev/services.

# edge_up fills in edge.conf.in and starts nginx. The cache starts empty, so that a page that was just built is shown.
edge_up() {
    local dir=$RUN_DIR/edge conf name nginx flags=(-g "daemon off;")
    need nginx openssl
    nginx=$(find_program nginx)
    # nginx would run its workers as another user, who may not enter this folder.
    if [[ $(id -u) == 0 ]]; then flags=(-g "daemon off; user root root;"); fi
    rm -rf "$dir"
    mkdir -p "$dir"
    conf=$(<"$here/edge.conf.in")
    for name in EDGE_PORT EDGE_TLS_PORT EDGE_COUNTS_PORT SECKILL_PORT ORDER_PORT INVENTORY_PORT; do conf=${conf//"@$name@"/"${!name}"}; done
    printf '%s\n' "${conf//"@EDGE_DIR@"/"$dir"}" >"$dir/nginx.conf"
    if [[ -z ${MONITORING:-} ]]; then sed -i '/ counted;$/d' "$dir/nginx.conf"; fi # nothing would receive them
    # A certificate of this set alone: it signs itself, for this machine's names.
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
        -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" -keyout "$dir/tls.key" -out "$dir/tls.crt" 2>/dev/null ||
        die "openssl made no certificate"
    # Each connection takes two descriptors.
    ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || true
    spawn edge "$nginx" -e /dev/stderr -p "$dir/" -c "$dir/nginx.conf" "${flags[@]}"
    wait_until edge 30 edge_responds
}

# The edge itself responds 404 to this path, whether or not the services run.
edge_responds() {
    [[ $(curl -s -m 5 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$EDGE_PORT/livez") == 404 ]]
}
