#!/bin/bash
# A service with three guilty functions (shares.c in this folder), which itself prints how much each of them pins. For each random seed
# this script prints whether `allocanary who` names them in that order, and how far its figures are from the program's.
# Usage: examples/who/shares.sh [FOLDER OF allocanary AND ITS preloads] [SEEDS]
set -eu
. "$(dirname "$0")/../lib.sh"
needs cc jq
locate "${1:-}"
seeds=${2:-20}
cd "$work"
cc -O1 -o shares "$here/shares.c"
load='touch {dir}/go; while [ ! -e {dir}/done ]; do sleep 0.01; done'
for seed in $(seq "$seeds"); do
    rm -rf traces
    "$allocanary" record -o traces --ready line:ready --load "$load" --settle 200ms \
        -- ./shares '{dir}' "$seed" "$work/truth" >/dev/null 2>&1
    "$allocanary" who traces/*.trace --json --top 3 >found
    jq -Rn --slurpfile found found '
        [inputs | split(" ") | { name: .[0], pinned: (.[1] | tonumber) }] as $truth | ($truth | map(.pinned) | add) as $all |
        $found[0].sites as $sites | {
            in_order: ([$sites[].name] == ["sessions", "orders", "labels"]),
            shares: [$sites[] | 100 * .pinned_bytes / $found[0].answers[0].pinned_bytes],
            truth: [$truth[] | 100 * .pinned / $all],
            off: [$truth[] | . as $one | $sites[] | select(.name == $one.name) | 100 * (.pinned_bytes - $one.pinned) / $one.pinned | fabs] }
    ' truth >"seed-$seed"
done
jq -sr '
    def middle: sort | .[length / 2 | floor]; def show: . * 100 | round / 100;
    . as $all | "sessions, orders, labels in this order in \(map(select(.in_order)) | length) of \(length); medians:",
    (range(3) as $at | ["sessions", "orders", "labels"][$at] as $name |
        "\($name): \($all | map(.shares[$at]) | middle | show) % of what is pinned, by the program itself \($all | map(.truth[$at]) | middle | show) %; " +
        "bytes differ by at most \($all | map(.off[$at]) | max | show) %")
' seed-*
