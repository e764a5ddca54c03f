#!/usr/bin/env bash
# How much memory do well-known programs use under each allocator? Runs thirteen programs under the eight default
# candidates and prints a Markdown table. The table of docs/lab/programs.md comes from here:
#
#     cargo build --release --bins && PATH=$PWD/target/release:$PATH examples/programs/table.sh OUT
#
# Run it in the root of a clone of allocanary, because git reads the clone's history. Needs python3, jq, sqlite3, git, g++, rustc, node,
# java, redis-server and redis-benchmark, nginx, ab, memcached, and PostgreSQL's server with pgbench in PATH. Do not run it as root:
# PostgreSQL refuses that. A program that has rows in OUT is not run again. A program that could not be run has no row; the reason is on
# standard error.
set -eu
. "$(dirname "$0")/../lib.sh"
[ $# -ge 1 ] || fail "wanted a folder for the results, found none"
needs allocanary python3 c++ rustc
out=$1
mkdir -p "$out/bin"
programs=examples/programs

# What the programs read and run.
python3 - >"$out/rows.json" <<'PYTHON'
import json
print(json.dumps([{"id": i, "tags": ["a%d" % (i % 7), "b"], "text": "x" * 40} for i in range(20000)]))
PYTHON
printf '%s\n' '#include <iostream>' '#include <map>' '#include <string>' 'int main() {' \
    '    std::map<std::string, int> counts;' '    for (std::string word; std::cin >> word;) ++counts[word];' \
    '    for (const auto &[word, count] : counts) std::cout << word << " " << count << "\n";' '}' >"$out/small.cc"
c++ -O2 -pthread $programs/threads.cpp -o "$out/bin/threads-cpp"
rustc -O $programs/threads.rs -o "$out/bin/threads-rs"

# The medians of a metric in MiB, one column for each candidate.
row() {
    allocanary report "$out/$2" --format csv | awk -F, -v title="$1" -v metric="$3" '
        # The name of a candidate with several settings is in quotation marks and contains commas, so it takes several fields. The fields
        # are therefore counted from the end.
        NR > 1 && $(NF - 8) == metric && $(NF - 7) == "bytes" { row = row sprintf(" %.1f |", $(NF - 5) / 1048576) }
        END { print "| " title " |" row }'
}
of() {
    title=$1 name=$2 metric=$3
    shift 3
    if [ ! -e "$out/$name/report.html" ]; then
        rm -rf "${out:?}/$name"
        allocanary run --out-dir "$out/$name" "$@" >"$out/$name.txt" 2>"$out/$name.log" || { cat "$out/$name.log" >&2; return; }
    fi
    row "$title" "$name" "$metric"
}

echo '| program | own | system | arena_max=1 | jemalloc | narenas=1 | narenas=1, tcache=false | mimalloc | allow_thp=0 |'
echo '|---|--:|--:|--:|--:|--:|--:|--:|--:|'
of python3 python peak -- python3 -c "rows = [{'id': i, 'data': bytes(600)} for i in range(50000)]; print(len(rows))"
of jq jq peak --stdin "$out/rows.json" -- jq 'map(.tags) | length'
of sqlite3 sqlite peak -- sqlite3 :memory: "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1
    from c where x < 50000) insert into t select x, hex(randomblob(0)) || x from c; create index i on t(b);
    select count(*) from t"
of git git peak -- git log --stat -n 150
of 'g++ (cc1plus)' gcc peak -- g++ -c "$out/small.cc" -o /dev/null
of node node peak -- node -e "const a = []; for (let i = 0; i < 200000; i++) a.push({ i }); console.log(a.length)"
of java java peak -- java -Xmx64m -version
of 'C++, 32 threads' threads-cpp peak -- "$out/bin/threads-cpp"
of 'Rust, 32 threads' threads-rs peak -- "$out/bin/threads-rs"
of redis-server redis resident --program $programs/redis.toml
of nginx nginx resident --program $programs/nginx.toml
of memcached memcached resident --repeats 5 --settle 1s --ready 'tcp:{port}' --load "python3 -c \"import socket
s = socket.create_connection(('127.0.0.1', {port}))
[s.sendall(b'set k%d 0 0 500 noreply\\r\\n' % i + b'x' * 500 + b'\\r\\n') for i in range(20000)]
s.sendall(b'version\\r\\n')
s.recv(100)\"" -- memcached -p '{port}' -U 0 -l 127.0.0.1 -u nobody
of PostgreSQL postgres pss --program $programs/postgres.toml
