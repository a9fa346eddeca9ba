# shellcheck shell=bash disable=SC2154
# Redis. Sourced by scripts/dev/dependencies.

redis_up() {
    local dir=$RUN_DIR/redis
    need redis-server redis-cli
    check_port redis "$REDIS_PORT"
    mkdir -p "$dir"
    # appendfsync always: an acknowledged reservation is on disk (everysec may lose acknowledged writes even on
    # SIGKILL). noeviction: Redis must never evict a key of a gate.
    cat >"$dir/redis.conf" <<EOF
port $REDIS_PORT
bind 127.0.0.1
databases 16
dir "$dir"
appendonly yes
appendfsync always
save ""
maxmemory 2gb
maxmemory-policy noeviction
set-proc-title no
EOF
    spawn redis "$(find_program redis-server)" "$dir/redis.conf"
    wait_until redis 60 redis_responds
}

redis_responds() {
    # A write: while Redis loads its append-only file it accepts PING but refuses SET.
    [[ $(redis-cli -h 127.0.0.1 -p "$REDIS_PORT" SET dev:ready 1 PX 100) == OK ]]
}
