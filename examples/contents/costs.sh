#!/bin/bash
# The table of docs/contents.md of what `allocanary heap --contents` costs: processor time, memory and pause for heaps of several sizes.
# Usage: examples/contents/costs.sh [FOLDER of allocanary] [ENTRIES ...]. Needs jq, GNU time and a C++ compiler.
set -u
built=$(realpath "${1:-target/release}")
shift
cd "$(dirname "$0")/../.." || exit 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
c++ -O2 -o "$folder/many" examples/contents/many.cpp || exit 2

echo '| live blocks | MiB | how | s of CPU | MiB of memory | stopped ms | lost, of 5,000 |'
echo '|--:|--:|---|--:|--:|--:|--:|'
for entries in "${@:-400000}"; do
    coproc many { exec "$folder/many" "$entries"; }
    pid=$many_PID
    read -r _ <&"${many[0]}"
    for how in "" "--freeze"; do
        # The median of five stops, because a single one may have waited for a processor.
        stops=$(for _ in 1 2 3 4 5; do
            /usr/bin/time -o "$folder/time" -f '%U %S %M' "$built/allocanary" heap "$pid" --contents --timeout 5m --json $how >"$folder/json" 2>/dev/null
            jq '.stopped_seconds // 0' "$folder/json"
            [ -n "$how" ] || break
        done)
        stop=$(sort -n <<<"$stops" | sed -n 3p)
        read -r user system memory <"$folder/time"
        jq -r --arg how "${how:-running}" --arg user "$user" --arg system "$system" --arg memory "$memory" --argjson stop "${stop:-0}" '
            def tenth: . * 10 | round / 10;
            "| \(.blocks) | \(.bytes / 1048576 | tenth) | \($how) | \(($user | tonumber) + ($system | tonumber) | tenth) | " +
            "\(($memory | tonumber) / 1024 | tenth) | \(if .stopped_seconds then $stop * 1000 | tenth else "" end) | \(.leaked.blocks // "not told") |"
        ' "$folder/json"
    done
    kill "$pid"
    wait "$pid" 2>/dev/null
done
