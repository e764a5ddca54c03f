#!/bin/bash
# How near are the sites of a sample to those of a full trace? Records two programs with all stacks and with those of one allocation in
# ten, alternating. For the five sites that pin most it prints what they pin, and by how much a draw differs from the median of all draws.
# Which blocks are sampled follows from their addresses, which differ in each process. With all stacks, a page's free bytes are divided
# among sites; in a sample, among blocks. So the two figures differ if sites share pages.
# Usage: examples/who/sampled.sh [FOLDER OF allocanary AND ITS preloads] [DRAWS]
# Needs redis-server, redis-benchmark, redis-cli, python3 (python3 itself, not a wrapper script) and jq.
set -eu
. "$(dirname "$0")/../lib.sh"
needs redis-server redis-benchmark redis-cli /usr/bin/python3 jq
locate "${1:-}"
draws=${2:-20}
cd "$work"
# Python's own allocator of small objects would hide them.
export PYTHONMALLOC=malloc

draw() { # PROGRAM NUMBER ARGUMENTS OF record
    local program=$1 number=$2 stacks
    shift 2
    for stacks in all 1/10; do
        rm -rf traces
        "$allocanary" record -o traces --stack-sample $stacks "$@" >/dev/null 2>&1
        "$allocanary" who traces/*.trace --json 2>/dev/null >"$program-${stacks/\//-}-$number"
    done
}

table() { # PROGRAM
    jq -sr --arg program "$1" --argjson draws "$draws" '
        def middle: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
        def mib: . / 1048576 * 100 | round / 100;
        map(.sites | map({key: .name, value: .pinned_bytes}) | from_entries) | .[:$draws] as $all | .[$draws:] as $some |
        ($all[0] | to_entries | sort_by(-.value) | .[:5][] | .key) as $name |
        ($all | map(.[$name] // 0) | middle) as $by_sites | ($some | map(.[$name] // 0)) as $found | ($found | middle) as $by_blocks |
        "| \($program) | \($name) | \($by_sites | mib) | \($by_blocks | mib) | " +
        "\($found | map((. - $by_blocks) / ([$by_blocks, 1] | max) | fabs) | middle * 1000 | round / 10) % |"
    ' "$1"-all-* "$1"-1-10-*
}

load='redis-benchmark -p {port} -t set -n 200000 -r 100000 -d 200 -q >/dev/null;
    redis-cli -p {port} eval "for i=0,99999 do if i%10~=0 then redis.call(\"del\", string.format(\"key:%012d\", i)) end end" 0 >/dev/null'
python='x = [{"a": [i] * 9, "b": str(i), "c": (i, {i})} for i in range(60000)]; y = x[::7]; del x; z = bytearray(60 << 20)'
for number in $(seq "$draws"); do
    draw redis-server "$number" --ready 'tcp:{port}' --load "$load" --settle 1s -- redis-server --port '{port}' --save ''
    draw python3 "$number" -- /usr/bin/python3 -c "$python"
done
echo '| program | site | pinned, all stacks, MiB | one in ten, median | a draw is off by, median |'
echo '|---|---|--:|--:|--:|'
table redis-server
table python3
