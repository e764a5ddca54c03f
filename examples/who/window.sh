#!/usr/bin/env bash
# `who` on the last ten seconds of a service that runs. redis-server gets 100,000 keys, serves them for twelve seconds, and then gets
# another 100,000, of which nine in ten are deleted. Then SIGTERM is sent to `allocanary record`, as a service manager does it.
#
#   examples/who/window.sh [FOLDER OF allocanary AND ITS preloads]
#
# With COSTS=1 it measures the processor time (user and system) of redis-server for two million requests, plain and recorded in five ways,
# alternating, ROUNDS times (default 5), and the length of the file.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs redis-server redis-benchmark redis-cli
locate "${1:-}"
rounds=${ROUNDS:-5}
port=$(free_port)

begin() { # RECORDER... : starts redis-server under it
    "$@" redis-server --port "$port" --save '' --dir "$work" >"$work/out" 2>"$work/err" &
    recorder=$!
    ready $recorder redis-cli -p "$port" ping || fail "redis-server does not start: $(cat "$work/err")"
}

load() { redis-benchmark -p "$port" -P 8 -d 200 -q "$@" >/dev/null; }

example() {
    begin "$allocanary" record --window 10s --stack-sample all -o "$work/traces" --
    load -t set -n 200000 -r 100000
    timeout 12 redis-benchmark -p "$port" -d 200 -q -l -t get -r 100000 >/dev/null || true
    redis-cli -p "$port" eval 'for i = 0, 99999 do redis.call("set", string.format("new:%012d", i), string.rep("x", 200)) end
        for i = 0, 99999 do if i % 10 ~= 0 then redis.call("del", string.format("new:%012d", i)) end end' 0 >/dev/null
    sleep 1
    end $recorder
    sed "s|$work/||g" "$work/err"
    "$allocanary" who "$work"/traces/*.trace --top 3
}

# Milliseconds of user and system time of the server, and the bytes of its trace.
cost() { # NAME RECORDER...
    local name=$1 spent
    shift
    rm -rf "$work/traces"
    begin "$@"
    local server
    server=$(redis-cli -p "$port" info server | tr -d '\r' | sed -n 's/^process_id://p')
    load -t set -n 2000000 -r 100000
    spent=$(cpu_ms_of "$server")
    end $recorder
    echo "$name $spent $(cat "$work"/traces/*.trace 2>/dev/null | wc -c)" >>"$work/costs"
}

if [ "${COSTS:-0}" = 0 ]; then
    example
    exit
fi
record=("$allocanary" record -o "$work/traces")
for _ in $(seq "$rounds"); do
    cost plain env
    cost 'off' "${record[@]}" --stack-sample off --
    cost 'window' "${record[@]}" --window 10s --
    cost 'all' "${record[@]}" --stack-sample all --
    cost 'window+all' "${record[@]}" --window 10s --stack-sample all --
    cost 'window+1/10' "${record[@]}" --window 10s --stack-sample 1/10 --
done
# A busy machine makes all runs of a round slower. So ratios are computed within a round, and their median is shown.
awk '$1 == "plain" { plain = $2 } { print $1, $2 / 1000, $2 / plain, $3 / 1048576 }' "$work/costs" >"$work/rounds"
column() { awk -v name="$name" -v column="$1" '$1 == name { print $column }' "$work/rounds"; }
echo '| recorded | CPU | of plain | least and most | file |'
echo '|---|--:|--:|--:|--:|'
for name in plain off window all window+all window+1/10; do
    read -r share least most < <(column 3 | spread)
    printf '| %s | %.2f s | %.2f | %.2f to %.2f | %.1f MiB |\n' "$name" "$(column 2 | median)" "$share" "$least" "$most" "$(column 4 | median)"
done
