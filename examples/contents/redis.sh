#!/bin/bash
# The figures of redis in docs/lab/contents.md: redis's own count of bytes before and after 200,000 texts, and what `allocanary heap
# --contents` reports.
# Usage: examples/contents/redis.sh [FOLDER of allocanary] [PORT]. Needs redis-server, redis-cli and jq.
set -eu
. "$(dirname "$0")/../lib.sh"
needs redis-server redis-cli jq
locate "${1:-}"
port=${2:-$(free_port)}
redis-server --port "$port" --save "" --appendonly no --dir "$work" >"$work/log" &
pid=$!
ready $pid redis-cli -p "$port" ping
used() {
    redis-cli -p "$port" info memory | tr -d '\r' | sed -n 's/^used_memory://p'
}
read_all() {
    reading "$pid" --contents |
        jq -r '"\(.bytes) \(.blocks) " + (.holders[] | select(.name | startswith("`server`")) | "\(.bytes) \(.blocks)")'
}
read -r bytes blocks server server_blocks < <(read_all)
before=$(used)
for ((at = 0; at < 200000; at++)); do
    printf 'SET key:%d value:%020d\r\n' "$at" "$at"
done | redis-cli -p "$port" --pipe >/dev/null
sleep 3 # its table has grown
after=$(used)
read -r bytes2 blocks2 server2 server_blocks2 < <(read_all)
echo "used_memory +$((after - before))"
echo "all live blocks +$((bytes2 - bytes)) bytes, +$((blocks2 - blocks)) blocks"
echo "held by server +$((server2 - server)) bytes, +$((server_blocks2 - server_blocks)) blocks"
