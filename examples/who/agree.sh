#!/bin/bash
# Does a replay pin what the program pins? Records six programs under three allocators. For each it prints what live blocks pin by the
# program's own addresses, and by a replay of its trace under the same allocator. redis-server is read when idle, the others at their
# peak.
# Usage: examples/who/agree.sh [FOLDER OF allocanary AND ITS preloads] [REPLAYS]
# Run it in the root of a clone of allocanary, because git reads the clone's history. Needs redis-server, redis-benchmark, python3
# (python3 itself, not a wrapper script), git, sqlite3, c++, rustc and jq.
set -eu
. "$(dirname "$0")/../lib.sh"
needs redis-server redis-benchmark redis-cli /usr/bin/python3 git sqlite3 c++ rustc jq
locate "${1:-}"
replays=${2:-3}
c++ -O2 -pthread "$here/../programs/threads.cpp" -o "$work/threads-cpp"
rustc -O "$here/../programs/threads.rs" -o "$work/threads-rs"
# Python's own allocator of small objects would hide them.
export PYTHONMALLOC=malloc

row() { # NAME ALLOCATOR ARGUMENTS OF record
    local name=$1 allocator=$2
    # Debian's redis-server is linked with jemalloc.
    local preload=$bin/preload-$allocator
    shift 2
    rm -rf "$work/traces"
    LD_PRELOAD=$preload "$allocanary" record -o "$work/traces" "$@" >/dev/null 2>&1
    local trace
    trace=$(ls -S "$work"/traces/*.trace | head -1)
    for _ in $(seq "$replays"); do "$allocanary" who "$trace" --under "$allocator" --json 2>/dev/null; done |
        jq -sr --arg name "$name" --arg allocator "$allocator" '
            def mib: . / 1048576 * 100 | round / 100;
            (map(.answers[0].under.pinned_bytes) | sort) as $there | .[0].answers[0].pinned_bytes as $own | ($there | .[length / 2 | floor]) as $middle |
            "| \($name) | \($allocator) | \($own | mib) | \($middle | mib) | \($there[0] | mib) to \($there[-1] | mib) | " +
            "\(100 * ($middle - $own) / ([$own, 1] | max) * 10 | round / 10) % |"'
}

load='redis-benchmark -p {port} -t set -n 200000 -r 100000 -d 200 -q >/dev/null;
    redis-cli -p {port} eval "for i=0,99999 do if i%10~=0 then redis.call(\"del\", string.format(\"key:%012d\", i)) end end" 0 >/dev/null'
python='x = [{"a": [i] * 9} for i in range(60000)]; y = x[::7]; del x'
sql='create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
    insert into t select i, hex(randomblob(40)) from n; create index j on t(b); delete from t where a % 5; select count(*) from t'
echo '| program | allocator | pinned in the process, MiB | by a replay, median | range | difference |'
echo '|---|---|--:|--:|--:|--:|'
for allocator in system jemalloc mimalloc; do
    row redis-server $allocator --ready 'tcp:{port}' --load "$load" --settle 1s -- redis-server --port '{port}' --save ''
    row 'git log' $allocator -- git -C "$root" log -60 --stat -p
    row python3 $allocator -- /usr/bin/python3 -c "$python"
    row sqlite3 $allocator -- sqlite3 :memory: "$sql"
    row threads.cpp $allocator -- "$work/threads-cpp"
    row threads.rs $allocator -- "$work/threads-rs"
done
