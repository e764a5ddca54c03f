#!/usr/bin/env bash
# What stacks cost, compared with heaptrack: the processor time (user and system, of all processes that a recorder starts) of twelve
# programs, plain and recorded, alternating, ROUNDS times (default 5). heaptrack --raw leaves out the process that looks names up while
# the program runs. PYTHON312 names a Python of 3.12 or later for the row with a perf map; otherwise it is searched on PATH.
#
#   examples/who/costs.sh [FOLDER OF allocanary AND ITS preloads] [PROGRAM...]     # in a clone with a history: git reads it
set -euo pipefail
bin=$(realpath "${1:-target/release}")
shift || true
here=$(realpath "$(dirname "$0")")
rounds=${ROUNDS:-5}
folder=$(mktemp -d)
# Runs also if a load fails or the user interrupts, so that no server stays. The process ID is that of a server which `served` has begun.
end() {
    [ ! -s "$folder/redis.pid" ] || kill "$(cat "$folder/redis.pid")" 2>/dev/null || true
    wait
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for tool in heaptrack redis-server redis-benchmark git sqlite3 lua5.4 ruby node jq c++ rustc "$bin/allocanary"; do
    command -v "$tool" >/dev/null || { echo "costs.sh: $tool is missing: install it" >&2; exit 1; }
done
c++ -O2 -pthread "$here/../programs/threads.cpp" -o "$folder/threads-cpp"
rustc -O "$here/../programs/threads.rs" -o "$folder/threads-rs"

# Milliseconds of user and system time. The program's own output is not kept.
ended() { # RECORDER... PROGRAM...
    local TIMEFORMAT='%3U %3S'
    { time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print int(($1 + $2) * 1000 + 0.5) }'
}

# The time of the server and its recorder, without the load.
served() { # RECORDER... redis-server
    if redis-cli -p 7943 ping >/dev/null 2>&1; then
        echo "costs.sh: wanted port 7943 for a redis-server of its own, found one that answers there: end it first" >&2
        exit 1
    fi
    # redis-server removes the file when it ends.
    ended "$@" --port 7943 --save '' --dir "$folder" --pidfile "$folder/redis.pid" &
    local waited=0
    until redis-cli -p 7943 ping >/dev/null 2>&1; do
        [ $((waited += 1)) -le 300 ] || { echo "costs.sh: wanted an answer of redis-server at port 7943 within 30 s, found none" >&2; exit 1; }
        sleep 0.1
    done
    redis-benchmark -p 7943 -P 8 -n 600000 -r 50000 -d 200 -t set,lpush -q >/dev/null
    redis-cli -p 7943 shutdown nosave >/dev/null 2>&1 || true
    wait
}

row() { # NAME FUNCTION PROGRAM...
    local name=$1 run=$2 way recorder made
    shift 2
    [ ${#only[@]} = 0 ] || [[ " ${only[*]} " == *" $name "* ]] || return 0
    rm -f "$folder"/cpu-*
    for _ in $(seq "$rounds"); do
        for way in plain off all heaptrack raw; do
            rm -rf "$folder/traces" "$folder"/heaptrack.*
            case $way in
                plain) recorder=(env) ;;
                off | all) recorder=("$bin/allocanary" record --max-size 4GiB --stack-sample $way -o "$folder/traces" --) ;;
                heaptrack) recorder=(heaptrack -o "$folder/heaptrack") ;;
                raw) recorder=(heaptrack --raw -o "$folder/heaptrack") ;;
            esac
            "$run" "${recorder[@]}" "$@" >>"$folder/cpu-$way"
            # A process may execute another program: each of its programs has a trace.
            [ $way != all ] || made=$(for trace in "$folder/traces"/*.trace; do
                "$bin/allocanary" trace export --format json "$trace"
            done | jq -s -r '"\(map(.allocations + .reallocations) | add) \(map(.stacks.file_bytes) | add)"')
        done
    done
    # A busy machine makes all five runs of a round slower. So ratios are computed within a round, and their median is shown.
    paste -d' ' "$folder"/cpu-{plain,off,all,heaptrack,raw} | awk -v name="$name" -v made="${made% *}" -v bytes="${made#* }" '
        function middle(of, count, i, j, kept) {
            for (i = 2; i <= count; i++) for (j = i; j > 1 && of[j] < of[j - 1]; j--) { kept = of[j]; of[j] = of[j - 1]; of[j - 1] = kept }
            return of[int((count + 1) / 2)]
        }
        {
            plain[NR] = $1; off[NR] = $2 / $1; all[NR] = $3 / $1; heaptrack[NR] = $4 / $1; raw[NR] = $5 / $1
            share[NR] = $3 / $4; stack[NR] = ($3 - $2) * 1e6 / made
        }
        END {
            # The time of a few thousand allocations cannot be measured, and the tables have some bytes before any event.
            each = made < 1e5 ? "- | -" : sprintf("%.0f | %.2f", middle(stack, NR), bytes / made)
            printf "| %s | %.2f s | %.2f M | %.2f | %.2f | %.2f | %.2f | %.2f | %s |\n", name, middle(plain, NR) / 1000,
                made / 1e6, middle(off, NR), middle(all, NR), middle(heaptrack, NR), middle(raw, NR), middle(share, NR), each
        }'
}

only=("$@")
echo '| program | plain | allocations | `--stack-sample off` | `--stack-sample all` | heaptrack | heaptrack --raw | all / heaptrack | ns a stack | bytes a stack |'
echo '|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|'
python=(/usr/bin/python3 -c 'x = [{"a": [i] * 9} for i in range(600000)]')
row redis-server served redis-server
row git ended git log -p
row python3 ended "${python[@]}"
PYTHONMALLOC=malloc row python3-malloc ended "${python[@]}"
# Python writes its map to /tmp/perf-PID.map. The program prints the path, so that the file can be removed.
latest=
for candidate in ${PYTHON312:-python3 python3.14 python3.13 python3.12}; do
    [ -n "$latest" ] || ! "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || latest=$candidate
done
if [ -n "$latest" ]; then
    # Written to a file, because heaptrack 1.4 takes a line of an argument that begins with x for an event.
    cat >"$folder/map.py" <<'END'
import os, sys
open(sys.argv[1], "a").write(f"/tmp/perf-{os.getpid()}.map\n")
def entry(i): return {"a": [i] * 9}
def load(n): return [entry(i) for i in range(n)]
x = load(400000)
END
    PYTHONMALLOC=malloc PYTHONPERFSUPPORT=1 row python3.12-map ended "$latest" "$folder/map.py" "$folder/maps"
    [ ! -e "$folder/maps" ] || xargs rm -f <"$folder/maps"
else
    echo "costs.sh: python3.12-map is left out: wanted a Python of 3.12 or later in PYTHON312, found ${PYTHON312:-none on PATH}" >&2
fi
row sqlite3 ended sqlite3 :memory: 'create table t(a, b);
    with recursive c(x) as (select 1 union all select x + 1 from c where x < 600000) insert into t select x, hex(randomblob(9)) || x from c;
    create index i on t(b); select sum(length(b)) from t; select b, count(*) from t group by substr(b, 1, 3) order by 2 limit 9;'
row lua ended lua5.4 -e 'local t = {} for i = 1, 400000 do t[i] = {name = "n" .. i, i} end for i = 1, 400000, 3 do t[i] = nil end'
row ruby ended ruby --disable-gems -e 'x = (0...400000).map { |i| { a: "name of #{i} that is no short text" } }'
row node ended node -e 'const x = []; for (let i = 0; i < 3000; i++) x.push(Buffer.alloc(5000), JSON.parse(`{"a": [${i}]}`)); JSON.stringify(x.length)'
# The compiler's own process has most of the events.
printf '#include <%s>\n' map regex iostream algorithm >"$folder/compiled.cpp"
row c++ ended c++ -std=c++17 -O1 -c "$folder/compiled.cpp" -o "$folder/compiled.o"
row threads-cpp ended "$folder/threads-cpp" 12 500000
row threads-rs ended "$folder/threads-rs" 12 500000
