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
cd "$(dirname "$0")/../.."
repeats=${1:-5}
limit=${2:-208}
preloads=${PRELOADS:-target/release}
[ -n "${PRELOADS:-}" ] || cargo build --release --quiet --locked --workspace --bins --features prometheus,leaks
out=$(mktemp -d)
cc -O2 -pthread -o "$out/bursts" examples/budget/bursts.c

# shellcheck source=group.sh
. examples/budget/group.sh
trap 'end_group; rm -rf "$out"' EXIT

# Runs the program once in the group, in a separate shell. Adds a line to a file: `killed`, or the program's output. Adds the budget's
# counts to another file.
once() {
    local code=0
    rm -f "$out/proof"
    { sh -c 'echo $$ >"$0/cgroup.procs" && exec env "$@"' "$folder" LD_PRELOAD="$(realpath "$preloads")/preload-$1" ALLOCANARY_PRELOAD="$2" \
        ALLOCANARY_PROOF="$out/proof" "$out/bursts" 128 6 16 >"$out/said" 2>>"$out/errors"; } 2>/dev/null || code=$?
    case $code in
        0) cat "$out/said" >>"$3" ;;
        137) echo killed >>"$3" ;;
        *) echo "$1 $2: exit code $code" >&2; cat "$out/errors" >&2; exit 1 ;;
    esac
    tail -n 1 "$out/proof" | { grep -o '"purges":[0-9]*' || true; } | tr -dc '0-9\n' >>"$3.purges"
}
lived() { grep -v killed "$1" || true; }
median() { sort -n | awk '{ all[NR] = $1 } END { if (NR) print all[int((NR + 1) / 2)]; else print "-" }'; }

# Allocator and further settings. glibc keeps the tops of other threads' arenas, which no call gives back. `tuned` has fewer arenas.
rows=(system: system:tuned jemalloc: mimalloc:)

round() {
    limited $(($1 << 20))
    rm -f "$out"/*.runs*
    for _ in $(seq "$repeats"); do
        for row in "${rows[@]}"; do
            allocator=${row%%:*} settings=${row#*:}
            once "$allocator" "$settings" "$out/$row.without.runs"
            once "$allocator" "$settings,memory_budget=container" "$out/$row.with.runs"
        done
    done
    echo
    echo "Limit of $1 MiB, $repeats runs each:"
    echo
    echo "| allocator | killed without | killed with | rounds/s without | with | ratio | resident at most, MiB, with | purges |"
    echo "|---|--:|--:|--:|--:|--:|--:|--:|"
    for row in "${rows[@]}"; do
        for arm in without with; do
            file=$out/$row.$arm.runs
            declare "killed_$arm=$(grep -c killed "$file" || true) of $repeats"
            declare "speed_$arm=$(lived "$file" | cut -d' ' -f2 | median)"
        done
        peak=$(lived "$out/$row.with.runs" | cut -d' ' -f3 | median)
        ratio=$(awk -v a="$speed_with" -v b="$speed_without" 'BEGIN { if (a > 0 && b > 0) printf "%.2fx", a / b; else print "-" }')
        echo "| ${row%:} | $killed_without | $killed_with | $speed_without | $speed_with | $ratio | $peak |" \
            "$(median <"$out/$row.with.runs.purges") |"
    done
}
round "$limit"
round $((limit * 2))
