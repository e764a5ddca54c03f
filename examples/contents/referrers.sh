#!/bin/bash
# Who points to a block? `allocanary heap --contents --to-address` and `--kind` against two programs that know it: referrers.cpp prints the
# addresses of its blocks, their holders and the places of the pointers. redis-server tells the address of a value (DEBUG OBJECT); gdb reads
# whether each step of the path leads to the next one, and redis counts by how much its memory shrinks when the key is deleted.
# Usage: examples/contents/referrers.sh [FOLDER of allocanary]. Needs redis-server, redis-cli, gdb, jq and a C++ compiler.
set -eu
. "$(dirname "$0")/../lib.sh"
needs redis-server redis-cli gdb jq c++
locate "${1:-}"

echo '| block | held by | as told | retains | as told | pointers | found |'
echo '|---|---|---|--:|--:|--:|--:|'
c++ -std=c++20 -O1 -g -w -o "$work/referrers" "$here/referrers.cpp"
mkfifo "$work/input"
"$work/referrers" <"$work/input" >"$work/list" &
pid=$!
exec 8>"$work/input"
ready $pid grep -q '^end' "$work/list" || exit 2
reading "$pid" --contents --kind Session >"$work/kind"
while IFS=$'\t' read -r what address holder blocks bytes places; do
    [ "$what" != end ] || break
    if [ "$what" = 'kind Session' ]; then
        cp "$work/kind" "$work/told"
    else
        reading "$pid" --contents --to-address "$address" >"$work/told"
    fi
    # shellcheck disable=SC2086
    words=$(for place in $places; do echo $((place)); done | jq -s -c .)
    jq -r --arg what "$what" --arg holder "$holder" --arg truth "$blocks blocks, $bytes B" --argjson at $((address)) --argjson words "$words" '
        (.pointed.blocks | map(select(.at == $at))[0]) as $block | ($block.path[0].from) as $from |
        # Of a variable there is the address of the word, of a block that of the block.
        [$block.pointers[] | if (.from | test("`|^variables")) then .at else .at + .offset end] as $found |
        "| \($what) | \($holder) | \($from | gsub(" [(][0-9]+[)]"; "")) | \($truth) | \($block.blocks) blocks, \($block.bytes) B | \($words | length) | " +
        "\($words - ($words - $found) | length) of \($found | length + $block.more) |"' "$work/told"
done <"$work/list"
exec 8>&-
end "$pid"

port=$(free_port)
# A histogram of its latency takes 24 KiB when a command is called for the first time.
redis-server --port "$port" --save "" --appendonly no --latency-tracking no --enable-debug-command yes --dir "$work" >"$work/log" &
pid=$!
ready $pid redis-cli -p "$port" ping
redis() { redis-cli -p "$port" "$@"; }
# Other keys too, so that these four are not alone. Not by a script: unused words of Lua's tables would point to old places.
{
    for at in {1..20000}; do
        echo "SET other:$at value:$at"
        echo "HSET hash field:$at the_value_of_field_$at"
        echo "RPUSH list the_element_of_the_list_with_number_$at"
        [ "$at" -gt 10000 ] || echo "ZADD zset $((at * 7919 % 10007)) member:$at"
    done
} | redis --pipe >/dev/null
head -c 1000000 /dev/zero | tr '\0' t | redis -x set text >/dev/null
sleep 3 # its tables have grown
# A client that has left is freed a little later.
used() {
    sleep 1
    redis info memory | tr -d '\r' | sed -n 's/^used_memory://p'
}

# The number of steps of the path in $work/told, and how many of their words lead to the next block.
steps() {
    # The last step leads to the block itself; the address of the first one is that of the word, within a variable.
    jq -r '.pointed.blocks[0] | [.path[0].at, (.path[1:][] | .at + .offset)] as $words | [(.path[1:][] | .at), .at] as $next |
        $words | to_entries[] | "\(.value) \($next[.key])"' "$work/told" >"$work/steps"
    local word asked=()
    while read -r word _; do asked+=(-ex "printf \"word %ld\\n\", *(long *)$word"); done <"$work/steps"
    gdb -batch -nx -p "$pid" "${asked[@]}" 2>/dev/null | sed -n 's/^word //p' | paste -d' ' "$work/steps" - |
        awk '$2 == $3 { right++ } END { print right + 0 " of " NR }'
}

echo
echo '| key | held by | steps that gdb confirms | retains | freed by DEL | MEMORY USAGE |'
echo '|---|---|--:|--:|--:|--:|'
for key in hash list zset text; do
    address=$(redis debug object $key | sed -n 's/.*Value at:\(0x[0-9a-f]*\).*/\1/p')
    reading "$pid" --contents --to-address "$address" >"$work/told"
    steps=$(steps)
    usage=$(redis memory usage $key samples 0)
    before=$(used)
    redis del $key >/dev/null
    after=$(used)
    jq -r --arg key $key --arg steps "$steps" --argjson freed $((before - after)) --argjson usage "$usage" \
        '.pointed.blocks[0] | "| \($key) | \(.path[0].from) | \($steps) | \(.bytes) | \($freed) | \($usage) |"' "$work/told"
done
