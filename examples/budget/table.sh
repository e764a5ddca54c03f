#!/usr/bin/env bash
# A program whose bursts come from different threads each time (`bursts.c`), in a control group with a memory limit: without a budget, and
# with `memory_budget=container`. Needs root, for the control group (v1 or v2), and a C compiler. Prints a Markdown table: how many runs the
# kernel killed, and the rounds per second of those that lived.
#
#   examples/budget/table.sh [REPEATS] [LIMIT in MiB]
#
# PRELOADS is a folder that has the preloads; without it they are built.
#
# A second table compares the rounds per second in a group with twice the limit, where no run is killed without a budget.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
# shellcheck source=group.sh
. "$here/group.sh"
needs cc
[ -n "${PRELOADS:-}" ] || build
bin=$(realpath -m "${PRELOADS:-$root/target/release}")
[ -e "$bin/preload-jemalloc" ] || fail "wanted the preloads in $bin, found none: set PRELOADS to their folder"
repeats=${1:-5}
limit=${2:-208}
cc -O2 -pthread -o "$work/bursts" "$here/bursts.c"


# Runs the program once in the group, in a separate shell. Adds a line to a file: `killed`, or the program's output. Adds the budget's
# counts to another file.
once() {
    local code=0
    rm -f "$work/proof"
    { sh -c 'echo $$ >"$0/cgroup.procs" && exec env "$@"' "$folder" LD_PRELOAD="$bin/preload-$1" ALLOCANARY_PRELOAD="$2" \
        ALLOCANARY_PROOF="$work/proof" "$work/bursts" 128 6 16 >"$work/said" 2>>"$work/errors"; } 2>/dev/null || code=$?
    case $code in
        0) cat "$work/said" >>"$3" ;;
        137) echo killed >>"$3" ;;
        *) echo "$1 $2: exit code $code" >&2; cat "$work/errors" >&2; exit 1 ;;
    esac
    tail -n 1 "$work/proof" | { grep -o '"purges":[0-9]*' || true; } | tr -dc '0-9\n' >>"$3.purges"
}
lived() { grep -v killed "$1" || true; }

# Allocator and further settings. glibc keeps the tops of other threads' arenas, which no call gives back. `tuned` has fewer arenas.
rows=(system: system:tuned jemalloc: mimalloc:)

round() {
    limited $(($1 << 20))
    rm -f "$work"/*.runs*
    for _ in $(seq "$repeats"); do
        for row in "${rows[@]}"; do
            allocator=${row%%:*} settings=${row#*:}
            once "$allocator" "$settings" "$work/$row.without.runs"
            once "$allocator" "$settings,memory_budget=container" "$work/$row.with.runs"
        done
    done
    echo
    echo "Limit of $1 MiB, $repeats runs each:"
    echo
    echo "| allocator | killed without | killed with | rounds/s without | with | ratio | resident at most, MiB, with | purges |"
    echo "|---|--:|--:|--:|--:|--:|--:|--:|"
    for row in "${rows[@]}"; do
        for arm in without with; do
            file=$work/$row.$arm.runs
            declare "killed_$arm=$(grep -c killed "$file" || true) of $repeats"
            declare "speed_$arm=$(lived "$file" | cut -d' ' -f2 | median)"
        done
        peak=$(lived "$work/$row.with.runs" | cut -d' ' -f3 | median)
        ratio=$(awk -v a="$speed_with" -v b="$speed_without" 'BEGIN { if (a > 0 && b > 0) printf "%.2fx", a / b; else print "-" }')
        echo "| ${row%:} | $killed_without | $killed_with | $speed_without | $speed_with | $ratio | $peak |" \
            "$(median <"$work/$row.with.runs.purges") |"
    done
}
round "$limit"
round $((limit * 2))
