# shellcheck shell=bash disable=SC2154
# Redis. Sourced by scripts/dev/dependencies.

redis_up() {
    local dir=$RUN_DIR/redis
    need redis-server redis-cli
    free redis "$REDIS_PORT"
    mkdir -p "$dir"
    # appendfsync always: an answered reservation is on disk (everysec may lose answered writes even on SIGKILL).
    # noeviction: a gate must never lose a key to make room.
    cat >"$dir/redis.conf" <<EOF
port $REDIS_PORT
bind 127.0.0.1
databases 16
dir "$dir"
appendonly yes
appendfsync always
save ""
maxmemory 512mb
maxmemory-policy noeviction
set-proc-title no
EOF
    spawn redis "$(find_program redis-server)" "$dir/redis.conf"
    wait_until redis 60 redis_answers
}

redis_answers() {
    # A write: while Redis loads its append-only file it answers PING but refuses this.
    [[ $(redis-cli -h 127.0.0.1 -p "$REDIS_PORT" SET dev:ready 1 PX 100) == OK ]]
}
