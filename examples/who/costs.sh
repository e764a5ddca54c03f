#!/usr/bin/env bash
# What stacks cost, compared with heaptrack: the processor time (user and system, of all processes that a recorder starts) of twelve
# programs, plain and recorded, alternating, ROUNDS times (default 5). heaptrack --raw leaves out the process that looks names up while
# the program runs. PYTHON312 names a Python of 3.12 or later for the row with a perf map; otherwise it is searched on PATH.
#
#   examples/who/costs.sh [FOLDER OF allocanary AND ITS preloads] [PROGRAM...]     # in a clone with a history: git reads it
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs heaptrack redis-server redis-benchmark git sqlite3 lua5.4 ruby node jq c++ rustc
locate "${1:-}"
only=("${@:2}")
rounds=${ROUNDS:-5}
port=$(free_port)
# Ends a server which `served` has begun, and which is a recorder's child.
at_end() { [ ! -s "$work/redis.pid" ] || kill "$(cat "$work/redis.pid")" 2>/dev/null || true; }
c++ -O2 -pthread "$here/../programs/threads.cpp" -o "$work/threads-cpp"
rustc -O "$here/../programs/threads.rs" -o "$work/threads-rs"

# The time of the server and its recorder, without the load.
served() { # RECORDER... redis-server
    # redis-server removes the file when it ends.
    cpu_ms "$@" --port "$port" --save '' --dir "$work" --pidfile "$work/redis.pid" &
    ready $! redis-cli -p "$port" ping
    redis-benchmark -p "$port" -P 8 -n 600000 -r 50000 -d 200 -t set,lpush -q >/dev/null
    redis-cli -p "$port" shutdown nosave >/dev/null 2>&1 || true
    wait
}

column() { cut -d' ' -f"$1" "$work/rounds" | median; }

row() { # NAME FUNCTION PROGRAM...
    local name=$1 run=$2 way recorder made each
    shift 2
    wanted "$name" "${only[@]}" || return 0
    rm -f "$work"/cpu-*
    for _ in $(seq "$rounds"); do
        for way in plain off all heaptrack raw; do
            rm -rf "$work/traces" "$work"/heaptrack.*
            case $way in
                plain) recorder=(env) ;;
                off | all) recorder=("$allocanary" record --max-size 4GiB --stack-sample $way -o "$work/traces" --) ;;
                heaptrack) recorder=(heaptrack -o "$work/heaptrack") ;;
                raw) recorder=(heaptrack --raw -o "$work/heaptrack") ;;
            esac
            "$run" "${recorder[@]}" "$@" >>"$work/cpu-$way"
            # A process may execute another program: each of its programs has a trace.
            [ $way != all ] || made=$(for trace in "$work/traces"/*.trace; do
                "$allocanary" trace export --format json "$trace"
            done | jq -s -r '"\(map(.allocations + .reallocations) | add) \(map(.stacks.file_bytes) | add)"')
        done
    done
    # A busy machine makes all five runs of a round slower. So ratios are computed within a round, and their median is shown.
    paste -d' ' "$work"/cpu-{plain,off,all,heaptrack,raw} | awk -v made="${made% *}" '
        { print $1 / 1000, $2 / $1, $3 / $1, $4 / $1, $5 / $1, $3 / $4, ($3 - $2) * 1e6 / made }' >"$work/rounds"
    # The time of a few thousand allocations cannot be measured, and the tables have some bytes before any event.
    each='- | -'
    [ "${made% *}" -lt 100000 ] || each=$(printf '%.0f | %.2f' "$(column 7)" "$(awk '{ print $2 / $1 }' <<<"$made")")
    printf '| %s | %.2f s | %.2f M | %.2f | %.2f | %.2f | %.2f | %.2f | %s |\n' "$name" "$(column 1)" \
        "$(awk '{ print $1 / 1e6 }' <<<"$made")" "$(column 2)" "$(column 3)" "$(column 4)" "$(column 5)" "$(column 6)" "$each"
}

echo '| program | plain | allocations | `--stack-sample off` | `--stack-sample all` | heaptrack | heaptrack --raw | all / heaptrack | ns a stack | bytes a stack |'
echo '|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|'
python=(/usr/bin/python3 -c 'x = [{"a": [i] * 9} for i in range(600000)]')
row redis-server served redis-server
row git cpu_ms git log -p
row python3 cpu_ms "${python[@]}"
PYTHONMALLOC=malloc row python3-malloc cpu_ms "${python[@]}"
# Python writes its map to /tmp/perf-PID.map. The program prints the path, so that the file can be removed.
latest=
for candidate in ${PYTHON312:-python3 python3.14 python3.13 python3.12}; do
    [ -n "$latest" ] || ! "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || latest=$candidate
done
if [ -n "$latest" ]; then
    # Written to a file, because heaptrack 1.4 takes a line of an argument that begins with x for an event.
    cat >"$work/map.py" <<'END'
import os, sys
open(sys.argv[1], "a").write(f"/tmp/perf-{os.getpid()}.map\n")
def entry(i): return {"a": [i] * 9}
def load(n): return [entry(i) for i in range(n)]
x = load(400000)
END
    PYTHONMALLOC=malloc PYTHONPERFSUPPORT=1 row python3.12-map cpu_ms "$latest" "$work/map.py" "$work/maps"
    [ ! -e "$work/maps" ] || xargs rm -f <"$work/maps"
else
    echo "costs.sh: python3.12-map is left out: wanted a Python of 3.12 or later in PYTHON312, found ${PYTHON312:-none on PATH}" >&2
fi
row sqlite3 cpu_ms sqlite3 :memory: 'create table t(a, b);
    with recursive c(x) as (select 1 union all select x + 1 from c where x < 600000) insert into t select x, hex(randomblob(9)) || x from c;
    create index i on t(b); select sum(length(b)) from t; select b, count(*) from t group by substr(b, 1, 3) order by 2 limit 9;'
row lua cpu_ms lua5.4 -e 'local t = {} for i = 1, 400000 do t[i] = {name = "n" .. i, i} end for i = 1, 400000, 3 do t[i] = nil end'
row ruby cpu_ms ruby --disable-gems -e 'x = (0...400000).map { |i| { a: "name of #{i} that is no short text" } }'
row node cpu_ms node -e 'const x = []; for (let i = 0; i < 3000; i++) x.push(Buffer.alloc(5000), JSON.parse(`{"a": [${i}]}`)); JSON.stringify(x.length)'
# The compiler's own process has most of the events.
printf '#include <%s>\n' map regex iostream algorithm >"$work/compiled.cpp"
row c++ cpu_ms c++ -std=c++17 -O1 -c "$work/compiled.cpp" -o "$work/compiled.o"
row threads-cpp cpu_ms "$work/threads-cpp" 12 500000
row threads-rs cpu_ms "$work/threads-rs" 12 500000
