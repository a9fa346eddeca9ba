# shellcheck shell=bash disable=SC2154
# RocketMQ name server and broker, run from the jars of Maven Central. Sourced by dependencies.

# The --add-* flags open JDK packages that the broker uses by reflection. SerialGC, small heaps and the first compiler
# tier alone keep it small: the second tier would use a processor for the first minutes. TLS is off: with it, each
# start generates a certificate, which can take seconds.
rocketmq_flags=(
    --add-exports java.base/sun.nio.ch=ALL-UNNAMED --add-opens java.base/java.nio=ALL-UNNAMED
    --add-opens java.base/java.util=ALL-UNNAMED --add-opens java.base/java.lang=ALL-UNNAMED
    -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Dtls.server.mode=disabled
    "-Drmq.logback.configurationFile=$here/rocketmq/logback.xml"
    -cp "$ROCKETMQ_LIB/*"
)

namesrv_up() {
    local dir=$RUN_DIR/namesrv
    need java
    [[ -d $ROCKETMQ_LIB ]] || die "RocketMQ's jars are missing; run 'make deps'"
    check_port namesrv "$NAMESRV_PORT"
    mkdir -p "$dir"
    printf 'listenPort=%s\nbindAddress=127.0.0.1\nkvConfigPath=%s\n' "$NAMESRV_PORT" "$dir/kv.json" >"$dir/namesrv.conf"
    spawn namesrv "$(find_program java)" -Xms64m -Xmx128m "${rocketmq_flags[@]}" \
        "-Drocketmq.home.dir=$dir/" "-Duser.home=$dir/" \
        org.apache.rocketmq.namesrv.NamesrvStartup -c "$dir/namesrv.conf"
    wait_until namesrv 60 listens "$NAMESRV_PORT"
}

broker_up() {
    local dir=$RUN_DIR/broker
    need java
    [[ -d $ROCKETMQ_LIB ]] || die "RocketMQ's jars are missing; run 'make deps'"
    check_port broker "$BROKER_PORT"
    disk_has_room
    mkdir -p "$dir"
    { # the last value of a key wins
        cat "$here/rocketmq/broker.conf"
        printf '\nlistenPort=%s\nhaListenPort=%s\nstorePathRootDir=%s\n' "$BROKER_PORT" $((BROKER_PORT + 1)) "$dir/store"
        printf 'brokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nbindAddress=127.0.0.1\n'
    } >"$dir/broker.conf"
    spawn broker "$(find_program java)" -Xms384m -Xmx384m -XX:MaxDirectMemorySize=384m "${rocketmq_flags[@]}" \
        "-Drocketmq.home.dir=$dir/" "-Duser.home=$dir/" \
        org.apache.rocketmq.broker.BrokerStartup -n "127.0.0.1:$NAMESRV_PORT" -c "$dir/broker.conf"
    wait_until broker 90 listens "$BROKER_PORT"
    make_topics # a listening broker may register with the name server up to 10 s later
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1"); }

# A broker on a disk that is more than 90 % full refuses every write; its message does not name the disk alone.
disk_has_room() {
    local used
    used=$(df -P "$RUN_DIR" | awk 'NR == 2 { sub("%", "", $5); print $5 }')
    if ((used >= 90)); then
        die "the disk of $RUN_DIR is $used % full; RocketMQ refuses writes above 90 %"
    fi
}

# mqadmin <verb and arguments>...: runs RocketMQ's admin tool, as in scripts/dev/dependencies mqadmin clusterList.
mqadmin() {
    need java
    java -Xmx128m "${rocketmq_flags[@]}" "-Drocketmq.home.dir=$RUN_DIR/namesrv/" "-Duser.home=$RUN_DIR/namesrv/" \
        org.apache.rocketmq.tools.command.MQAdminStartup "$@" -n "127.0.0.1:$NAMESRV_PORT"
}
