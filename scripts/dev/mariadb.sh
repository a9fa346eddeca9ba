# shellcheck shell=bash disable=SC2154
# MariaDB. Sourced by scripts/dev/dependencies.

mariadb_up() {
    local dir=$RUN_DIR/mariadb socket=$RUN_DIR/mariadb/sock user
    need mariadbd mariadb-install-db mariadb
    check_port mariadb "$MARIADB_PORT"
    user=$(id -un)
    # A socket's path has at most 107 bytes. All clients use TCP.
    if ((${#socket} > 100)); then socket=${TMPDIR:-/tmp}/flashsale-$MARIADB_PORT.sock; fi
    # A folder of its own: a server that starts removes the temporary tables that it finds there, also another
    # server's.
    mkdir -p "$dir/tmp"
    if [[ ! -d $dir/data/mysql ]]; then
        rm -rf "$dir/data.new"
        # root without a password, reachable from this machine only.
        TMPDIR=$dir/tmp mariadb-install-db --no-defaults --datadir="$dir/data.new" --user="$user" --skip-test-db \
            --auth-root-authentication-method=normal >>"$(log_file mariadb)" 2>&1 ||
            die "mariadb-install-db failed; see $(log_file mariadb): $(grep -m 3 ERROR "$(log_file mariadb)")"
        mv "$dir/data.new" "$dir/data" # so that an incomplete directory is never used
    fi
    # A pool of threads has fewer context switches than a thread for each connection: a payment costs a tenth less.
    spawn mariadb "$(find_program mariadbd)" --no-defaults \
        --datadir="$dir/data" --tmpdir="$dir/tmp" --user="$user" --socket="$socket" --pid-file="$dir/data/mariadbd.pid" \
        --bind-address=127.0.0.1 --port="$MARIADB_PORT" --skip-name-resolve --max-connections=500 \
        --character-set-server=utf8mb4 --collation-server=utf8mb4_bin --default-time-zone=+00:00 \
        --innodb-buffer-pool-size=256M --innodb-log-file-size=128M --innodb-flush-log-at-trx-commit=1 \
        --thread-handling=pool-of-threads --performance-schema=OFF --skip-log-bin
    wait_until mariadb 60 mariadb_responds
    wait_until mariadb 60 mariadb_databases
}

mariadb_client() {
    mariadb --no-defaults --protocol=tcp -h 127.0.0.1 -P "$MARIADB_PORT" -u root --connect-timeout=2 "$@"
}

mariadb_databases() { mariadb_client <"$here/databases.sql"; }

mariadb_responds() { [[ $(mariadb_client -N -e 'SELECT 40 + 2') == 42 ]]; }
