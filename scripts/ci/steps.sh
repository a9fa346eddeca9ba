# shellcheck shell=bash
# Shared by scripts/ci/run and scripts/ci/proof: runs steps, times and logs them, and prints the ten slowest tests and a
# table of the steps at the end. A failed step does not end the script; later steps run unless they need it. Sourced,
# not run.
#
# scripts/ci/budget holds how long each step may take. A step that took 20 % longer, on this machine's own speed, is
# printed as OVER; FAIL_OVER=1 makes that a failure.

step_logs=${RUN_DIR:?}/steps
mkdir -p "$step_logs"
rm -f "$step_logs"/*
step_names=() step_results=() step_seconds=() # of steps that have ended or did not run, in order
declare -A step_pids=() step_began=()         # of steps in the background
ci_began=$SECONDS

log_of() { echo "$step_logs/${1//[^A-Za-z0-9]/-}.log"; }

# record <name> <result> <seconds>
record() {
    local result=$2
    if [[ $result == ok ]] && over "$1" "$3"; then result="ok, OVER $(budget_of "$1") min"; fi
    step_names+=("$1") step_results+=("$result") step_seconds+=("$3")
}

# passed <name>: succeeds if the step has run and succeeded.
passed() {
    local i
    for i in "${!step_names[@]}"; do
        [[ ${step_names[i]} != "$1" ]] || [[ ${step_results[i]} != ok* ]] || return 0
    done
    return 1
}

# met <name> <needed step or ''>: records the step as not run if the step that it needs has not succeeded.
met() {
    [[ -z $2 ]] || passed "$2" || {
        record "$1" "not run: needs '$2'" 0
        return 1
    }
}

# step <name> <needed step or ''> <command>...: runs it and shows its output.
step() {
    local name=$1 needs=$2 began=$SECONDS rc
    shift 2
    met "$name" "$needs" || return 0
    printf '\n=== %s (%s)\n' "$name" "$(date -u +%H:%M:%S)"
    # A subshell outside of a condition, because bash ignores `set -e` inside of one.
    (
        set -euo pipefail
        "$@"
    ) 2>&1 | tee "$(log_of "$name")"
    rc=${PIPESTATUS[0]}
    record "$name" "$( ((rc == 0)) && echo ok || echo "FAIL (status $rc)")" $((SECONDS - began))
}

# start_step <name> <command>...: runs it in the background, in a process group of its own; await_step shows its
# output.
start_step() {
    local name=$1
    shift
    printf '\n=== %s: started in the background (%s)\n' "$name" "$(date -u +%H:%M:%S)"
    step_began[$name]=$SECONDS
    set -m
    (
        set -euo pipefail
        "$@"
        echo $((SECONDS - step_began[$name])) >"$(log_of "$name").seconds"
    ) >"$(log_of "$name")" 2>&1 &
    set +m
    step_pids[$name]=$!
}

# await_step <name>: waits for a step in the background and records it.
await_step() {
    local name=$1 rc=0 took
    [[ -n ${step_pids[$name]:-} ]] || return 0
    wait "${step_pids[$name]}" || rc=$?
    unset "step_pids[$name]"
    printf '\n=== %s: output of the background\n' "$name"
    cat "$(log_of "$name")"
    # The duration of the step, not of the wait for it.
    took=$(cat "$(log_of "$name").seconds" 2>/dev/null || echo $((SECONDS - step_began[$name])))
    record "$name" "$( ((rc == 0)) && echo ok || echo "FAIL (status $rc)")" "$took"
}

# end_background: ends steps that still run in the background, after an interrupt.
end_background() {
    local name
    for name in "${!step_pids[@]}"; do
        kill -TERM -- "-${step_pids[$name]}" 2>/dev/null || true
        wait "${step_pids[$name]}" 2>/dev/null || true
        record "$name" "FAIL (interrupted)" $((SECONDS - step_began[$name]))
    done
    step_pids=()
}

# measure_speed sets `pace`, the time of a compile that always does the same work in percent of that in the budget, and
# `caches`: cold if Go's build cache has few files in a 256th of it, or if the test tools are missing. Without it no
# step has a budget.
pace='' caches=warm
measure_speed() {
    local build began took
    build=$(mktemp -d)
    began=$(date +%s%N)
    GOCACHE=$build go build encoding/json || return
    took=$((($(date +%s%N) - began) / 1000000))
    rm -rf "$build"
    pace=$((took / 10 / $(budget_of speed)))
    if ((pace < 25)); then pace=25; fi
    if (($(find "$(go env GOCACHE)/00" -type f | wc -l) <= 20)) || ! make -q test-tools; then caches=cold; fi
    printf 'the compile that measures speed took %d.%d s, %d %% of that in the budget; caches are %s\n' \
        $((took / 1000)) $((took % 1000 / 100)) "$pace" "$caches"
}

# budget_of <name>: prints the number of the budget's line, or nothing.
budget_of() {
    awk -v name="$1" -v column="$([[ $caches == warm ]] && echo 2 || echo 3)" -F ' *[|] *' \
        '!/^#/ && $1 == name { print $column; exit }' scripts/ci/budget
}

# over <name> <seconds>: succeeds if the step took 20 % longer than its budget.
over() {
    local budget
    [[ -n $pace ]] || return 1
    budget=$(budget_of "$1")
    [[ -n $budget ]] && (($2 * 100 > budget * 60 * 120 * pace / 100))
}

minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# all_ok: succeeds if at least one step has run and none has failed.
all_ok() {
    local result
    [[ ${step_results[*]} == *ok* ]] || return 1
    for result in "${step_results[@]}"; do
        [[ $result == ok* || $result == SKIPPED* || $result == proven ]] || return 1
        [[ $result != *OVER* || ${FAIL_OVER:-} != 1 ]] || return 1
    done
}

# slowest prints the ten tests of the step "make test" that took longest.
slowest() {
    local events=(.run/tests/*.json)
    [[ ${step_names[*]} == *"make test"* && -f ${events[0]} ]] || return 0
    printf '\n%-80s %7s\n' "slowest tests" s
    # Top-level tests only.
    sed -nE 's#.*"Package":"flashsale.internal/([^"]*)","Test":"([^"/]*)","Elapsed":([0-9.]+).*#\3 \1 \2#p' \
        "${events[@]}" | LC_ALL=C sort -rn | head -n 10 | while read -r took package test; do
        printf '%-80s %7.1f\n' "$package $test" "$took"
    done
}

# summary: prints the end of the log of each failed step, the slowest tests, then the table of steps.
summary() {
    local i
    for i in "${!step_names[@]}"; do
        [[ ${step_results[i]} == FAIL* && -f $(log_of "${step_names[i]}") ]] || continue
        printf '\n=== %s: %s; the end of its output\n' "${step_names[i]}" "${step_results[i]}"
        # Lines that name a failure come first: in the output of many packages they are far from the end.
        { grep -nE '^(--- FAIL|FAIL|=== FAIL)|^ +--- FAIL|^panic:|WARNING: DATA RACE' \
            "$(log_of "${step_names[i]}")" || true; } | head -n 40
        tail -n 40 "$(log_of "${step_names[i]}")"
    done
    slowest
    printf '\n%-58s %7s  %s\n' step min:s result
    for i in "${!step_names[@]}"; do
        printf '%-58s %7s  %s\n' "${step_names[i]}" "$(minutes "${step_seconds[i]}")" "${step_results[i]}"
    done
    printf '%-58s %7s  %s\n' "total" "$(minutes $((SECONDS - ci_began)))" "$(all_ok && echo green || echo FAILED)"
}
