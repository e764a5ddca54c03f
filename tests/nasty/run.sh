#!/usr/bin/env bash
# Programs of nasty calls, drawn by seeds: each must write the same lines and end in the same way under the recorder, the profile and each
# preload as alone. Usage: tests/nasty/run.sh [FOLDER of allocanary and its preloads [DRAWS [FIRST SEED]]]. Without a first seed, it is the day, so that
# each night has others. Exit code 1: one differs; its seed and its lines are shown.
set -euo pipefail
. "$(dirname "$0")/../../examples/lib.sh"
needs cc
locate "${1:-}"
draws=${2:-200}
first=${3:-$(($(date +%s) / 86400 * 1000))}
cc -O1 -pthread -w -o "$work/nasty" "$here/nasty.c" -ldl

# Runs a draw: run NAME VARIABLES... COMMAND. Its lines and its end are in $work/NAME. No core is written.
run() {
    local name=$1 code=0
    shift
    { (cd "$work" && ulimit -c 0 && exec timeout -s KILL 60 env "$@" </dev/null >"$work/$name" 2>"$work/$name.errors"); } 2>/dev/null || code=$?
    echo "exit $code" >>"$work/$name"
}

failed=0
for ((seed = first; seed < first + draws; seed++)); do
    run alone "$work/nasty" "$seed"
    run again "$work/nasty" "$seed"
    cmp -s "$work/alone" "$work/again" || { echo "seed $seed: differs from run to run: left out" >&2; continue; }
    rm -rf "$work/traces"
    run record "$allocanary" record --stack-sample all --out-dir "$work/traces" -- "$work/nasty" "$seed"
    run profile LD_PRELOAD="$bin/preload-profile" ALLOCANARY_PRELOAD=profile=16KiB "$work/nasty" "$seed"
    for allocator in system jemalloc mimalloc; do
        run "$allocator" LD_PRELOAD="$bin/preload-$allocator" ALLOCANARY_PRELOAD=thread_idle=1ms,memory_budget=64MiB,profile=16KiB "$work/nasty" "$seed"
    done
    for name in record profile system jemalloc mimalloc; do
        # mimalloc itself reads a clock, and names its memory by prctl: what the program has forbidden itself.
        [ "$name" != mimalloc ] || ! grep -qE '^(no clock|filter that kills|filter by prctl) 0' "$work/alone" || continue
        cmp -s "$work/alone" "$work/$name" && continue
        failed=$((failed + 1))
        echo "seed $seed: under $name it differs (- alone, + $name):"
        diff -u "$work/alone" "$work/$name" | sed -n '3,30p' || true
        tail -n 3 "$work/$name.errors"
    done
done
echo "$draws draws from seed $first under five libraries: $failed differ"
[ "$failed" = 0 ]
