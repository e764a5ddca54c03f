#!/bin/bash
# A service with a known answer (tests/record/pins.c): `survivor` keeps a small block behind each large one that is freed. For each random
# seed and allocator it prints which site `allocanary who` names first, and how much is pinned and how much is empty.
# Usage: examples/who/known.sh [FOLDER OF allocanary AND ITS preloads] [SEEDS]
set -eu
bin=$(realpath "${1:-target/release}")
seeds=${2:-20}
source=$(realpath "$(dirname "$0")/../../tests/record/pins.c")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cc -O1 -w -o pins "$source"
load='touch {dir}/go; while [ ! -e {dir}/done ]; do sleep 0.01; done'
for allocator in glibc jemalloc mimalloc; do
    first=0
    for seed in $(seq "$seeds"); do
        rm -rf traces
        preload=$([ $allocator = glibc ] || echo "$bin/preload-$allocator")
        LD_PRELOAD=$preload "$bin/allocanary" record -o traces --ready line:ready --load "$load" --settle 200ms \
            -- ./pins '{dir}' "$seed" 2>/dev/null
        "$bin/allocanary" who traces/*.trace --json >"found-$seed"
        [ "$(jq -r '.sites[0].name' "found-$seed")" != survivor ] || first=$((first + 1))
    done
    jq -sr --arg allocator $allocator --arg first "$first of $seeds" '
        def middle(f): map(.answers[0] | f) | sort | .[length / 2 | floor];
        "\($allocator): survivor is first in \($first); medians: pinned \(middle(100 * .pinned_bytes / .pages_bytes) | . * 10 | round / 10) % of " +
        "\(middle(.pages_bytes / 1048576) | round) MiB resident, empty \(middle(100 * .empty_bytes / .pages_bytes) | . * 10 | round / 10) %"
    ' found-*
done
