# shellcheck shell=bash
# Shared by the scripts in this folder: where things are, and how a process is started, found and stopped.
# Not run by itself.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/scripts/dev

# RUN_DIR and PORT_OFFSET let several sets live side by side: a test that kills a broker starts its own set.
RUN_DIR=${RUN_DIR:-$root/.run}
case $RUN_DIR in /*) ;; *) RUN_DIR=$PWD/$RUN_DIR ;; esac
PORT_OFFSET=${PORT_OFFSET:-0}
if ! [[ $PORT_OFFSET =~ ^[0-9]{1,5}$ ]]; then
    echo "PORT_OFFSET must be a number, not '$PORT_OFFSET'" >&2
    exit 2
fi
mkdir -p "$RUN_DIR/logs"

# shellcheck source=env
. "$here/env"

say() { echo "$*"; }
die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# need <command>...: stops with a sentence when a program is missing.
need() {
    local program
    for program in "$@"; do
        find_program "$program" >/dev/null || die "$program is not installed; run 'make deps'"
    done
}

# Debian keeps daemons in /usr/sbin, which is not on everybody's PATH.
find_program() { PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin command -v "$1"; }

pid_file() { echo "$RUN_DIR/$1.pid"; }
log_file() { echo "$RUN_DIR/logs/$1.log"; }

# In the functions below, <name> is a dependency or a service, as in RUN_DIR/<name>.pid.

# mark <name>: prints a text that only that process has in its command line. A pid file can outlive a reboot, so a pid alone
# does not identify the process.
mark() { echo "$RUN_DIR/$1/"; }

# pid_of <name>: prints the pid if the process runs. A killed process that is not reaped yet does not count.
pid_of() {
    local pid
    pid=$(cat "$(pid_file "$1")" 2>/dev/null) || return 1
    [[ $pid =~ ^[0-9]+$ ]] || return 1
    ps -ww -o args= -p "$pid" 2>/dev/null | grep -qF -- "$(mark "$1")" || return 1
    echo "$pid"
}

# spawn <name> <command>...: starts it in a session of its own, so that it outlives this shell and its Ctrl-C.
spawn() {
    local name=$1
    shift
    # 9 is the lock of this script; a daemon must not hold it.
    setsid nohup "$@" >>"$(log_file "$name")" 2>&1 </dev/null 9>&- &
    echo $! >"$(pid_file "$name")"
}

# gone <pid>: it has ended, reaped or not (in a container nobody may reap it).
gone() { [[ $(ps -o stat= -p "$1" 2>/dev/null || true) =~ ^(Z.*)?$ ]]; }

# again <command...>: up to four times, for what comes over the network.
again() {
    local n
    for n in 1 2 3; do
        "$@" && return
        sleep $((n * 5))
    done
    "$@"
}

# wait_until <name> <seconds> <check>...: waits until the check succeeds; fails at once when the process is gone.
wait_until() {
    local name=$1 deadline=$((SECONDS + $2)) pid
    shift 2
    pid=$(cat "$(pid_file "$name")")
    until "$@" >/dev/null 2>&1; do
        if gone "$pid"; then
            tail -n 15 "$(log_file "$name")" >&2
            die "$name ended while starting; its log is $(log_file "$name")"
        fi
        if ((SECONDS >= deadline)); then
            tail -n 15 "$(log_file "$name")" >&2
            die "$name is not ready in time; its log is $(log_file "$name")"
        fi
        sleep 0.2
    done
}

# end <name> <signal> <seconds>: signals it and waits; after that time it is killed.
end() {
    local name=$1 signal=$2 deadline=$((SECONDS + $3)) pid
    if ! pid=$(pid_of "$name"); then
        rm -f "$(pid_file "$name")"
        return 0
    fi
    kill "-$signal" "$pid" 2>/dev/null || true
    until gone "$pid"; do # not pid_of: a dying process loses its command line before it frees its ports
        if ((SECONDS >= deadline)); then
            say "$name did not end in $3 s and is killed" >&2
            kill -KILL "$pid" 2>/dev/null || true
            deadline=$((SECONDS + 10))
        fi
        sleep 0.1
    done
    rm -f "$(pid_file "$name")"
}

# free <name> <port>: a sentence now instead of a stack trace in a log later.
free() {
    if (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; then
        die "port $2 for $1 is taken by something else; choose another PORT_OFFSET"
    fi
}

# only_one: two callers at once would start everything twice.
only_one() {
    exec 9>"$RUN_DIR/.lock"
    flock -w 300 9 || die "another '${0##*/}' is at work on $RUN_DIR"
}

# make_topics: returns when the system's own topics are there and visible, on whatever broker ROCKETMQ_NAMESRV leads to.
make_topics() {
    need go
    (cd "$root" && go build -o .bin/topics ./flashctl/cmd/topics && .bin/topics)
}
