#!/usr/bin/env bash
# What a budget costs a program whose live memory is just below its limit (`bursts.c` under `memory_budget=256MiB`). Two figures: the ratio of
# its processor time with the budget to that without; and the additional processor time, as a share of one processor while the program
# ran. Medians; the runs alternate. Needs a C compiler. Prints a Markdown table.
#
#   examples/budget/near.sh [REPEATS]
#
# PRELOADS is a folder that has the preloads; without it they are built.
set -euo pipefail
cd "$(dirname "$0")/../.."
repeats=${1:-5}
preloads=${PRELOADS:-target/release}
[ -n "${PRELOADS:-}" ] || cargo build --release --quiet --locked --workspace --bins --features prometheus,leaks
preloads=$(realpath "$preloads")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cc -O2 -pthread -o "$out/bursts" examples/budget/bursts.c
TIMEFORMAT='%U %S %R'

# Adds to one file a line with the processor time and the elapsed time in seconds, and to another file the count of purges.
once() { # PRELOAD SETTINGS FILE WORDS...
    rm -f "$out/proof"
    local preload=$1 settings=$2 file=$3
    shift 3
    { time LD_PRELOAD="$preloads/preload-$preload" ALLOCANARY_PRELOAD="$settings" ALLOCANARY_PROOF="$out/proof" \
        "$out/bursts" "$@" >/dev/null 2>&1; } 2>"$out/time"
    awk '{ print $1 + $2, $3 }' "$out/time" >>"$file"
    tail -n 1 "$out/proof" | { grep -o '"purges":[0-9]*' || true; } | tr -dc '0-9\n' >>"$file.purges"
}
median() { sort -n | awk '{ all[NR] = $1 } END { if (NR) print all[int((NR + 1) / 2)]; else print "-" }'; }

echo "| live, MiB of 256 | allocator | processor time | more, of one processor | purges |"
echo "|---|---|--:|--:|--:|"
for shape in "8 3000 240" "4 6000 246" "24 300 220"; do
    read -r burst rounds stays <<<"$shape"
    for preload in system jemalloc mimalloc; do
        rm -f "$out"/*.runs*
        for _ in $(seq "$repeats"); do
            once "$preload" "" "$out/without.runs" "$burst" "$rounds" "$stays"
            once "$preload" memory_budget=256MiB "$out/with.runs" "$burst" "$rounds" "$stays"
        done
        without=$(cut -d' ' -f1 "$out/without.runs" | median)
        more=$(awk -v without="$without" '{ print ($1 - without) / $2 }' "$out/with.runs" | median)
        with=$(cut -d' ' -f1 "$out/with.runs" | median)
        echo "| $stays to $((stays + burst)) | $preload | $(awk -v a="$with" -v b="$without" 'BEGIN { printf "%.2fx", a / b }') |" \
            "$(awk -v a="$more" 'BEGIN { printf "%.0f %%", a * 100 }') | $(median <"$out/with.runs.purges") |"
    done
done
