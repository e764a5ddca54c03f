#!/bin/bash
# The table of docs/heap.md: programs in several languages. Each is started here, read, and ended.
# Usage: examples/heap/table.sh [FOLDER of allocanary]. Needs jq; a program that is not installed is left out. The canary is a program of
# tokio's with tikv-jemallocator if it was built so:
#   cargo build --release --locked -p kube_canary --no-default-features --features jemalloc-alloc --target-dir target/tokio
set -u
cd "$(dirname "$0")/../.." || exit 2
built=$(realpath "${1:-target/release}")
command=$built/allocanary
tokio=$built/../tokio/release/kube_canary
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

has() { command -v "$1" >/dev/null || { echo "left out: $1 is not installed" >&2; return 1; }; }

told() { # NAME PID: takes a process apart, and prints a row of the table. Why a heap is not divided goes to standard error.
    timeout 60 "$command" heap "$2" --json >"$folder/reading" 2>"$folder/why" || { echo "$1: $(cat "$folder/why")" >&2; return; }
    jq -r --arg name "$1" '
        def mib: . / 1048576 * 10 | round / 10 | tostring;
        def part(p): [.heaps[].parts_bytes[p]] | add // 0 | mib;
        def area(s): [.areas[] | select(.sort == s) | .resident_bytes] | add // 0 | mib;
        "| \($name) | \(.resident_bytes | mib) | \(part("live")) | \(part("cached")) | \(part("fragmentation")) | \(part("free_pages")) | " +
        "\(area("runtime")) | \(area("program")) | \(([.areas[] | select(.sort == "files" or .sort == "shared") | .resident_bytes] | add // 0) | mib) | \(area("unknown")) | " +
        "\(if .heaps == [] then "no `malloc`" else [.heaps[] | "\(.allocator) \(.version): \(.sure)"] | join(", ") end) |"' "$folder/reading"
    jq -r --arg name "$1" '.problems[] | "\($name): \(.)"' "$folder/reading" >&2
}

row() { # NAME COMMAND...: starts it, waits, prints a row, and ends it.
    name=$1
    shift
    has "$1" || return
    "$@" >/dev/null 2>&1 &
    pid=$!
    sleep "${WAIT:-3}"
    told "$name" "$pid"
    kill "$pid"
    wait "$pid" 2>/dev/null
}

cat >"$folder/J.java" <<'JAVA'
public class J {
    static java.util.ArrayList<byte[]> kept = new java.util.ArrayList<>();
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 50000; i++) kept.add(new byte[1000]);
        Thread.sleep(1000000);
    }
}
JAVA
cat >"$folder/g.go" <<'GO'
package main

import "time"

var kept [][]byte

func main() {
	for i := 0; i < 20000; i++ {
		kept = append(kept, make([]byte, 4096))
		kept[i][1] = 1
	}
	time.Sleep(1000 * time.Second)
}
GO
echo '| program | resident | live | cached | fragmentation | free pages | runtime | program | files and shared | no heap known | how sure |'
echo '|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|'
python='
a = [str(i) * 3 for i in range(300000)]
b = [bytes(1000 + i % 500) for i in range(60000)]
del b[::2]
import time
time.sleep(1000)'
row 'python3, half of its larger objects freed' "$(python3 -c 'import sys; print(sys.executable)')" -c "$python"
row 'redis-server, empty' redis-server --port 0 --unixsocket "$folder/socket" --save '' --dir "$folder"
if has redis-server && has redis-cli; then
    redis-server --port 0 --unixsocket "$folder/redis" --save '' --dir "$folder" >/dev/null &
    until [ -S "$folder/redis" ]; do sleep 0.1; done
    redis-cli -s "$folder/redis" eval 'for i = 1, 200000 do redis.call("set", "key" .. i, string.rep("x", 100 + i % 300)) end
        for i = 1, 200000, 2 do redis.call("del", "key" .. i) end' 0 >/dev/null
    told 'redis-server, half of 200,000 keys deleted' $!
    kill $!
    wait $! 2>/dev/null
fi
if has nginx && has wrk; then
    mkdir -p "$folder/www"
    head -c 20000 /dev/urandom >"$folder/www/f"
    cat >"$folder/nginx.conf" <<NGINX
daemon off; master_process off; pid $folder/nginx.pid; error_log $folder/nginx.log;
events { worker_connections 500; }
http { access_log off; server { listen unix:$folder/nginx; listen 127.0.0.1:8180; gzip on; gzip_types *; location / { root $folder/www; } } }
NGINX
    nginx -c "$folder/nginx.conf" 2>/dev/null &
    server=$!
    sleep 1
    wrk -t 1 -c 200 -d 3 -H 'Accept-Encoding: gzip' http://127.0.0.1:8180/f >/dev/null &
    sleep 1
    told 'nginx under wrk, 200 connections' $server
    wait $!
    kill $server
    wait $server 2>/dev/null
fi
if has git; then
    mkfifo "$folder/objects"
    git cat-file --batch-all-objects --batch-check='%(objectname)' 2>/dev/null | head -20000 >"$folder/names"
    git cat-file --batch <"$folder/objects" >/dev/null &
    exec 7>"$folder/objects"
    cat "$folder/names" >&7
    sleep 1
    told "git cat-file, $(wc -l <"$folder/names") objects of this repository" $!
    exec 7>&-
    wait $! 2>/dev/null
fi
if has sqlite3; then
    mkfifo "$folder/statements"
    sqlite3 :memory: <"$folder/statements" >/dev/null &
    exec 7>"$folder/statements"
    cat >&7 <<SQL
create table t (i integer primary key, s text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) insert into t select i, hex(randomblob(20 + i % 80)) from n;
create index x on t (s);
delete from t where i % 2;
select 1;
SQL
    sleep 3
    told 'sqlite3, 300,000 rows in memory, while it deletes half' $!
    exec 7>&-
    wait $! 2>/dev/null
fi
if has postgres && has initdb && has psql; then
    database=$(mktemp -d)
    as() { if [ "$(id -u)" = 0 ]; then chown -R postgres "$database" && su postgres -c "$1"; else sh -c "$1"; fi; }
    programs=$(dirname "$(realpath "$(command -v postgres)")")
    as "$programs/initdb -D $database/data -A trust -U postgres >/dev/null && $programs/pg_ctl -D $database/data -s -w \
        -o '-k $database -c listen_addresses= -c shared_buffers=32MB' -l $database/log start" || cat "$database/log" >&2
    mkfifo "$folder/queries"
    psql -q -h "$database" -U postgres postgres <"$folder/queries" >"$folder/rows" 2>&1 &
    exec 7>"$folder/queries"
    cat >&7 <<SQL
select pg_backend_pid();
set work_mem = '64MB';
select count(*) from (select i, md5(i::text) m from generate_series(1, 200000) i order by m) s;
declare c cursor with hold for select i, md5(i::text) m from generate_series(1, 200000) i order by m;
begin; declare d cursor for select i, md5(i::text) m from generate_series(1, 200000) i order by m; fetch 10 from d;
SQL
    sleep 4
    backend=$(grep -Eo '^ *[0-9]+$' "$folder/rows" | head -1 | tr -d ' ')
    told 'PostgreSQL, a backend that sorts 200,000 rows' "$backend"
    exec 7>&-
    wait $!
    as "$programs/pg_ctl -D $database/data -s -m fast stop"
    rm -rf "$database"
fi
row 'PHP, half of 200,000 strings freed' php -r '$a = []; for ($i = 0; $i < 200000; $i++) $a[] = str_repeat("x", 50 + $i % 400);
    for ($i = 0; $i < 200000; $i += 2) unset($a[$i]); sleep(1000);'
if [ -x "$tokio" ] && has wrk; then
    strip -o "$folder/canary" "$tokio"
    "$folder/canary" --listen 127.0.0.1:8178 --udp-port 8179 --protocol udp --peer 127.0.0.1 >/dev/null 2>&1 &
    server=$!
    sleep 1
    wrk -t 1 -c 100 -d 3 http://127.0.0.1:8178/metrics >/dev/null &
    sleep 1
    told 'Rust: tokio with tikv-jemallocator, stripped, under wrk' $server
    wait $!
    kill $server
    wait $server 2>/dev/null
fi
row 'node, 300,000 objects' node -e 'let a = []; for (let i = 0; i < 3e5; i++) a.push({ i, s: "x" + i }); setTimeout(() => a, 1e7)'
(cd "$folder" && javac J.java 2>/dev/null)
row 'java, 50 MB of arrays' java -Xmx256m -cp "$folder" J
(cd "$folder" && go build -o g g.go 2>/dev/null)
[ -x "$folder/g" ] && row 'Go, 80 MB of slices' "$folder/g"
