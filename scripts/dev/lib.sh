# shellcheck shell=bash
# Shared by the scripts in this folder: folders, ports, and functions that start, find and stop processes.
# Sourced, not run.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/scripts/dev

# RUN_DIR and PORT_OFFSET select a set of processes, so that several sets can run at a time. A test that kills a broker
# starts its own set.
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

# need <command>...: exits with a message if a program is missing.
need() {
    local program
    for program in "$@"; do
        find_program "$program" >/dev/null || die "$program is not installed; run 'make deps'"
    done
}

# Debian keeps daemons in /usr/sbin, which is not on every user's PATH.
find_program() { PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin command -v "$1"; }

pid_file() { echo "$RUN_DIR/$1.pid"; }
log_file() { echo "$RUN_DIR/logs/$1.log"; }

# In the functions below, <name> is a dependency or a service, as in RUN_DIR/<name>.pid.

# mark <name>: prints a text that only that process has in its command line. A pid file can outlive a reboot, so a pid
# alone does not identify the process.
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

# ended <pid>: succeeds if the process has ended, reaped or not (a container may have no process that reaps it).
ended() { [[ $(ps -o stat= -p "$1" 2>/dev/null || true) =~ ^(Z.*)?$ ]]; }

# retry <command>...: runs it up to four times, for downloads.
retry() {
    local n
    for n in 1 2 3; do
        "$@" && return
        sleep $((n * 5))
    done
    "$@"
}

# wait_until <name> <seconds> <check>...: waits until the check succeeds; fails at once if the process has ended.
wait_until() {
    local name=$1 deadline=$((SECONDS + $2)) pid
    shift 2
    pid=$(cat "$(pid_file "$name")")
    until "$@" >/dev/null 2>&1; do
        if ended "$pid"; then
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

# end <name> <signal> <seconds>: sends the signal and waits until the process has ended; kills it after that time.
end() {
    local name=$1 signal=$2 deadline=$((SECONDS + $3)) pid
    if ! pid=$(pid_of "$name"); then
        rm -f "$(pid_file "$name")"
        return 0
    fi
    kill "-$signal" "$pid" 2>/dev/null || true
    until ended "$pid"; do # not pid_of: a process that ends loses its command line before it frees its ports
        if ((SECONDS >= deadline)); then
            say "$name did not end within $3 s; sending SIGKILL" >&2
            kill -KILL "$pid" 2>/dev/null || true
            deadline=$((SECONDS + 10))
        fi
        sleep 0.1
    done
    rm -f "$(pid_file "$name")"
}

# check_port <name> <port>: exits with a message if the port is in use, before the process fails on it.
check_port() {
    if (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; then
        die "port $2 for $1 is in use; choose another PORT_OFFSET"
    fi
}

# only_one: takes the lock of RUN_DIR; two callers at a time would start every process twice.
only_one() {
    exec 9>"$RUN_DIR/.lock"
    flock -w 300 9 || die "another '${0##*/}' still uses $RUN_DIR"
}

# make_topics: creates the system's topics on the broker at ROCKETMQ_NAMESRV; returns when they are visible.
make_topics() {
    need go
    (cd "$root" && go build -o .bin/topics ./flashctl/cmd/topics && .bin/topics)
}
