# shellcheck shell=bash disable=SC2154
# RocketMQ name server and broker, run straight from Maven's jars. Sourced by dependencies.

# The --add-* flags open what the broker reaches into on JDK 17; SerialGC, small heaps and the quick compiler alone (the other
# one needs a processor for the first minutes) keep it laptop-sized.
# No TLS: for it, each start would search for the primes of a certificate of its own, which takes seconds by chance.
rocketmq_flags=(
    --add-exports java.base/sun.nio.ch=ALL-UNNAMED --add-opens java.base/java.nio=ALL-UNNAMED
    --add-opens java.base/java.util=ALL-UNNAMED --add-opens java.base/java.lang=ALL-UNNAMED
    -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Dtls.server.mode=disabled "-Drmq.logback.configurationFile=$here/rocketmq/logback.xml"
    -cp "$ROCKETMQ_LIB/*"
)

namesrv_up() {
    local dir=$RUN_DIR/namesrv
    need java
    [[ -d $ROCKETMQ_LIB ]] || die "RocketMQ's jars are not there; run 'make deps'"
    free namesrv "$NAMESRV_PORT"
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
    [[ -d $ROCKETMQ_LIB ]] || die "RocketMQ's jars are not there; run 'make deps'"
    free broker "$BROKER_PORT"
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
    make_topics # a broker that listens may register with the name server 10 s later
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1"); }

# A broker on a disk that is more than 90 % full refuses every write, with a message that names other reasons too.
disk_has_room() {
    local used
    used=$(df -P "$RUN_DIR" | awk 'NR == 2 { sub("%", "", $5); print $5 }')
    if ((used >= 90)); then
        die "the disk of $RUN_DIR is $used % full; RocketMQ refuses writes above 90 %"
    fi
}

# mqadmin <verb and arguments>...: RocketMQ's own tool, for people (scripts/dev/dependencies mqadmin clusterList).
mqadmin() {
    need java
    java -Xmx128m "${rocketmq_flags[@]}" "-Drocketmq.home.dir=$RUN_DIR/namesrv/" "-Duser.home=$RUN_DIR/namesrv/" \
        org.apache.rocketmq.tools.command.MQAdminStartup "$@" -n "127.0.0.1:$NAMESRV_PORT"
}
