#!/usr/bin/env bash
# What a budget costs a program whose live memory is just below its limit (`bursts.c` under `memory_budget=256MiB`). Two figures: the ratio of
# its processor time with the budget to that without; and the additional processor time, as a share of one processor while the program
# ran. Medians; the runs alternate. Needs a C compiler. Prints a Markdown table.
#
#   examples/budget/near.sh [REPEATS]
#
# PRELOADS is a folder that has the preloads; without it they are built.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs cc
[ -n "${PRELOADS:-}" ] || build
bin=$(realpath -m "${PRELOADS:-$root/target/release}")
[ -e "$bin/preload-jemalloc" ] || fail "wanted the preloads in $bin, found none: set PRELOADS to their folder"
repeats=${1:-5}
cc -O2 -pthread -o "$work/bursts" "$here/bursts.c"
TIMEFORMAT='%U %S %R'

# Adds to one file a line with the processor time and the elapsed time in seconds, and to another file the count of purges.
once() { # PRELOAD SETTINGS FILE WORDS...
    rm -f "$work/proof"
    local preload=$1 settings=$2 file=$3
    shift 3
    { time LD_PRELOAD="$bin/preload-$preload" ALLOCANARY_PRELOAD="$settings" ALLOCANARY_PROOF="$work/proof" \
        "$work/bursts" "$@" >/dev/null 2>&1; } 2>"$work/time"
    awk '{ print $1 + $2, $3 }' "$work/time" >>"$file"
    tail -n 1 "$work/proof" | { grep -o '"purges":[0-9]*' || true; } | tr -dc '0-9\n' >>"$file.purges"
}

echo "| live, MiB of 256 | allocator | processor time | more, of one processor | purges |"
echo "|---|---|--:|--:|--:|"
for shape in "8 3000 240" "4 6000 246" "24 300 220"; do
    read -r burst rounds stays <<<"$shape"
    for preload in system jemalloc mimalloc; do
        rm -f "$work"/*.runs*
        for _ in $(seq "$repeats"); do
            once "$preload" "" "$work/without.runs" "$burst" "$rounds" "$stays"
            once "$preload" memory_budget=256MiB "$work/with.runs" "$burst" "$rounds" "$stays"
        done
        without=$(cut -d' ' -f1 "$work/without.runs" | median)
        more=$(awk -v without="$without" '{ print ($1 - without) / $2 }' "$work/with.runs" | median)
        with=$(cut -d' ' -f1 "$work/with.runs" | median)
        echo "| $stays to $((stays + burst)) | $preload | $(awk -v a="$with" -v b="$without" 'BEGIN { printf "%.2fx", a / b }') |" \
            "$(awk -v a="$more" 'BEGIN { printf "%.0f %%", a * 100 }') | $(median <"$work/with.runs.purges") |"
    done
done
