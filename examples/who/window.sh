#!/usr/bin/env bash
# `who` on the last ten seconds of a service that runs. redis-server gets 100,000 keys, serves them for twelve seconds, and then gets
# another 100,000, of which nine in ten are deleted. Then SIGTERM is sent to `allocanary record`, as a service manager does it.
#
#   examples/who/window.sh [FOLDER OF allocanary AND ITS preloads]
#
# With COSTS=1 it measures the processor time (user and system) of redis-server for two million requests, plain and recorded in five ways,
# alternating, ROUNDS times (default 5), and the length of the file.
set -euo pipefail
bin=$(realpath "${1:-target/release}")
rounds=${ROUNDS:-5}
folder=$(mktemp -d)
recorder=
# Runs also if a load fails or the user interrupts, so that no server stays.
end() {
    [ -z "$recorder" ] || { kill -TERM "$recorder" 2>/dev/null && wait "$recorder" || true; }
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for tool in redis-server redis-benchmark redis-cli "$bin/allocanary"; do
    command -v "$tool" >/dev/null || { echo "window.sh: $tool is missing: install it" >&2; exit 1; }
done
port=7945

begin() { # RECORDER... : starts redis-server under it
    if redis-cli -p $port ping >/dev/null 2>&1; then
        echo "window.sh: wanted port $port for a redis-server of its own, found one that answers there: end it first" >&2
        exit 1
    fi
    "$@" redis-server --port $port --save '' --dir "$folder" >"$folder/out" 2>"$folder/err" &
    recorder=$!
    for _ in $(seq 300); do
        ! redis-cli -p $port ping >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "window.sh: wanted an answer of redis-server at port $port within 30 s, found none:" >&2
    cat "$folder/err" >&2
    exit 1
}

load() { redis-benchmark -p $port -P 8 -d 200 -q "$@" >/dev/null; }

example() {
    begin "$bin/allocanary" record --window 10s --stack-sample all -o "$folder/traces" --
    load -t set -n 200000 -r 100000
    timeout 12 redis-benchmark -p $port -d 200 -q -l -t get -r 100000 >/dev/null || true
    redis-cli -p $port eval 'for i = 0, 99999 do redis.call("set", string.format("new:%012d", i), string.rep("x", 200)) end
        for i = 0, 99999 do if i % 10 ~= 0 then redis.call("del", string.format("new:%012d", i)) end end' 0 >/dev/null
    sleep 1
    kill -TERM $recorder
    wait $recorder || true
    recorder=
    sed "s|$folder/||g" "$folder/err"
    "$bin/allocanary" who "$folder"/traces/*.trace --top 3
}

# Milliseconds of user and system time of the server, and the bytes of its trace.
cost() { # NAME RECORDER...
    local name=$1 ticks
    shift
    rm -rf "$folder/traces"
    begin "$@"
    local server
    server=$(redis-cli -p $port info server | tr -d '\r' | sed -n 's/^process_id://p')
    load -t set -n 2000000 -r 100000
    ticks=$(awk '{ print $14 + $15 }' "/proc/$server/stat")
    kill -TERM $recorder
    wait $recorder || true
    recorder=
    echo "$name $((ticks * 1000 / $(getconf CLK_TCK))) $(cat "$folder"/traces/*.trace 2>/dev/null | wc -c)" >>"$folder/costs"
}

if [ "${COSTS:-0}" = 0 ]; then
    example
    exit
fi
record=("$bin/allocanary" record -o "$folder/traces")
for _ in $(seq "$rounds"); do
    cost plain env
    cost 'off' "${record[@]}" --stack-sample off --
    cost 'window' "${record[@]}" --window 10s --
    cost 'all' "${record[@]}" --stack-sample all --
    cost 'window+all' "${record[@]}" --window 10s --stack-sample all --
    cost 'window+1/10' "${record[@]}" --window 10s --stack-sample 1/10 --
done
# A busy machine makes all runs of a round slower. So ratios are computed within a round, and their median is shown.
awk '
    function middle(of, count, i, j, kept) {
        for (i = 2; i <= count; i++) for (j = i; j > 1 && of[j] < of[j - 1]; j--) { kept = of[j]; of[j] = of[j - 1]; of[j - 1] = kept }
        return of[int((count + 1) / 2)]
    }
    $1 == "plain" { plain = $2 }
    {
        if (!($1 in count)) order[++names] = $1
        at = ++count[$1]
        ms[$1, at] = $2; ratio[$1, at] = $2 / plain; bytes[$1, at] = $3
    }
    END {
        print "| recorded | CPU | of plain | least and most | file |\n|---|--:|--:|--:|--:|"
        for (n = 1; n <= names; n++) {
            name = order[n]
            for (at = 1; at <= count[name]; at++) { a[at] = ms[name, at]; b[at] = ratio[name, at]; c[at] = bytes[name, at] }
            time = middle(a, count[name]); share = middle(b, count[name]); size = middle(c, count[name])
            printf "| %s | %.2f s | %.2f | %.2f to %.2f | %.1f MiB |\n", name, time / 1000, share, b[1], b[count[name]], size / 1048576
        }
    }' "$folder/costs"
