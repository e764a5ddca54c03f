#!/bin/bash
# The table of docs/lab/contents.md of what `allocanary heap --contents` costs: processor time, memory and pause for heaps of several sizes.
# Usage: examples/contents/costs.sh [FOLDER of allocanary] [ENTRIES ...]. Needs jq, GNU time and a C++ compiler.
set -u
. "$(dirname "$0")/../lib.sh"
needs jq c++ /usr/bin/time
locate "${1:-}"
[ $# = 0 ] || shift
c++ -O2 -o "$work/many" "$here/many.cpp" || exit 2

echo '| live blocks | MiB | how | s of CPU | MiB of memory | stopped ms | lost, of 5,000 |'
echo '|--:|--:|---|--:|--:|--:|--:|'
for entries in "${@:-400000}"; do
    converse "$work/many" "$entries"
    for how in "" "--freeze"; do
        # The median of five stops, because a single one may have waited for a processor.
        stops=$(for _ in 1 2 3 4 5; do
            /usr/bin/time -o "$work/time" -f '%U %S %M' "$allocanary" heap "$pid" --contents --timeout 5m --json $how >"$work/json" 2>/dev/null
            jq '.stopped_seconds // 0' "$work/json"
            [ -n "$how" ] || break
        done)
        stop=$(median <<<"$stops")
        read -r user system memory <"$work/time"
        jq -r --arg how "${how:-running}" --arg user "$user" --arg system "$system" --arg memory "$memory" --argjson stop "${stop:-0}" '
            def tenth: . * 10 | round / 10;
            "| \(.blocks) | \(.bytes / 1048576 | tenth) | \($how) | \(($user | tonumber) + ($system | tonumber) | tenth) | " +
            "\(($memory | tonumber) / 1024 | tenth) | \(if .stopped_seconds then $stop * 1000 | tenth else "" end) | \(.leaked.blocks // "not told") |"
        ' "$work/json"
    done
    end "$pid"
done
