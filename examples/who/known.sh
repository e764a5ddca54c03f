#!/bin/bash
# A service with a known answer (tests/record/pins.c): `survivor` keeps a small block behind each large one that is freed. For each random
# seed and allocator it prints which site `allocanary who` names first, and how much is pinned and how much is empty.
# Usage: examples/who/known.sh [FOLDER OF allocanary AND ITS preloads] [SEEDS]
set -eu
. "$(dirname "$0")/../lib.sh"
needs cc jq
locate "${1:-}"
seeds=${2:-20}
cd "$work"
cc -O1 -w -o pins "$root/tests/record/pins.c"
load='touch {dir}/go; while [ ! -e {dir}/done ]; do sleep 0.01; done'
for allocator in glibc jemalloc mimalloc; do
    preload=$(preload_of $allocator) || continue
    first=0
    for seed in $(seq "$seeds"); do
        rm -rf traces
        LD_PRELOAD=$preload "$allocanary" record -o traces --ready line:ready --load "$load" --settle 200ms \
            -- ./pins '{dir}' "$seed" 2>/dev/null
        "$allocanary" who traces/*.trace --json >"found-$seed"
        [ "$(jq -r '.sites[0].name' "found-$seed")" != survivor ] || first=$((first + 1))
    done
    jq -sr --arg allocator $allocator --arg first "$first of $seeds" '
        def middle(f): map(.answers[0] | f) | sort | .[length / 2 | floor];
        "\($allocator): survivor is first in \($first); medians: pinned \(middle(100 * .pinned_bytes / .pages_bytes) | . * 10 | round / 10) % of " +
        "\(middle(.pages_bytes / 1048576) | round) MiB resident, empty \(middle(100 * .empty_bytes / .pages_bytes) | . * 10 | round / 10) %"
    ' found-*
done
