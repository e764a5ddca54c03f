#!/bin/bash
# The table of docs/lab/heap.md: programs in several languages. Each is started here, read, and ended.
# Usage: examples/heap/table.sh [FOLDER of allocanary]. Needs jq; a program that is not installed is left out. The canary is a program of
# tokio's with tikv-jemallocator if it was built so:
#   cargo build --release --locked -p kube_canary --no-default-features --features jemalloc-alloc --target-dir target/tokio
set -u
. "$(dirname "$0")/../lib.sh"
needs jq
locate "${1:-}"
cd "$root" || exit 2
tokio=$bin/../tokio/release/kube_canary

told() { # NAME PID: takes a process apart, and prints a row of the table. Why a heap is not analysed goes to standard error.
    reading "$2" --timeout 60s >"$work/reading" || { echo "$1: $(cat "$work/why")" >&2; return; }
    jq -r --arg name "$1" '
        def mib: . / 1048576 * 10 | round / 10 | tostring;
        def part(p): [.heaps[].parts_bytes[p]] | add // 0 | mib;
        def area(s): [.areas[] | select(.sort == s) | .resident_bytes] | add // 0 | mib;
        "| \($name) | \(.resident_bytes | mib) | \(part("live")) | \(part("cached")) | \(part("fragmentation")) | \(part("free_pages")) | " +
        "\(area("runtime")) | \(area("program")) | \(([.areas[] | select(.sort == "files" or .sort == "shared") | .resident_bytes] | add // 0) | mib) | \(area("unknown")) | " +
        "\(if .heaps == [] then "no `malloc`" else [.heaps[] | "\(.allocator) \(.version): \(.sure)"] | join(", ") end) |"' "$work/reading"
    jq -r --arg name "$1" '.problems[] | "\($name): \(.)"' "$work/reading" >&2
}

row() { # NAME COMMAND...: starts it, waits, prints a row, and ends it.
    name=$1
    shift
    has "$1" || return
    "$@" >/dev/null 2>&1 &
    pid=$!
    sleep "${WAIT:-3}"
    told "$name" "$pid"
    end "$pid"
}

cat >"$work/J.java" <<'JAVA'
public class J {
    static java.util.ArrayList<byte[]> kept = new java.util.ArrayList<>();
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 50000; i++) kept.add(new byte[1000]);
        Thread.sleep(1000000);
    }
}
JAVA
cat >"$work/g.go" <<'GO'
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
row 'python3, half of its larger objects freed' "$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null || echo python3)" -c "$python"
row 'redis-server, empty' redis-server --port 0 --unixsocket "$work/socket" --save '' --dir "$work"
if has redis-server redis-cli; then
    start_redis
    redis-cli -s "$work/redis" eval 'for i = 1, 200000 do redis.call("set", "key" .. i, string.rep("x", 100 + i % 300)) end
        for i = 1, 200000, 2 do redis.call("del", "key" .. i) end' 0 >/dev/null
    told 'redis-server, half of 200,000 keys deleted' "$pid"
    end "$pid"
fi
if has nginx wrk; then
    port=$(free_port)
    mkdir -p "$work/www"
    head -c 20000 /dev/urandom >"$work/www/f"
    cat >"$work/nginx.conf" <<NGINX
daemon off; master_process off; pid $work/nginx.pid; error_log $work/nginx.log;
events { worker_connections 500; }
http { access_log off; server { listen unix:$work/nginx; listen 127.0.0.1:$port; gzip on; gzip_types *; location / { root $work/www; } } }
NGINX
    nginx -c "$work/nginx.conf" 2>/dev/null &
    server=$!
    ready $server listening "$port"
    wrk -t 1 -c 200 -d 3 -H 'Accept-Encoding: gzip' "http://127.0.0.1:$port/f" >/dev/null &
    sleep 1
    told 'nginx under wrk, 200 connections' $server
    wait $!
    end $server
fi
if has git; then
    mkfifo "$work/objects"
    git cat-file --batch-all-objects --batch-check='%(objectname)' 2>/dev/null | head -20000 >"$work/names"
    git cat-file --batch <"$work/objects" >/dev/null &
    exec 7>"$work/objects"
    cat "$work/names" >&7
    sleep 1
    told "git cat-file, $(wc -l <"$work/names") objects of this repository" $!
    exec 7>&-
    wait $! 2>/dev/null
fi
if has sqlite3; then
    mkfifo "$work/statements"
    sqlite3 :memory: <"$work/statements" >/dev/null &
    exec 7>"$work/statements"
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
if has postgres initdb psql; then
    # PostgreSQL does not run as root, and its user may not look into $work.
    database=$(mktemp -d)
    as() { if [ "$(id -u)" = 0 ]; then chown -R postgres "$database" && su postgres -c "$1"; else sh -c "$1"; fi; }
    programs=$(dirname "$(realpath "$(command -v postgres)")")
    at_end() {
        as "$programs/pg_ctl -D $database/data -s -m fast stop"
        rm -rf "$database"
    }
    as "$programs/initdb -D $database/data -A trust -U postgres >/dev/null && $programs/pg_ctl -D $database/data -s -w \
        -o '-k $database -c listen_addresses= -c shared_buffers=32MB' -l $database/log start" || cat "$database/log" >&2
    mkfifo "$work/queries"
    psql -q -h "$database" -U postgres postgres <"$work/queries" >"$work/rows" 2>&1 &
    exec 7>"$work/queries"
    cat >&7 <<SQL
select pg_backend_pid();
set work_mem = '64MB';
select count(*) from (select i, md5(i::text) m from generate_series(1, 200000) i order by m) s;
declare c cursor with hold for select i, md5(i::text) m from generate_series(1, 200000) i order by m;
begin; declare d cursor for select i, md5(i::text) m from generate_series(1, 200000) i order by m; fetch 10 from d;
SQL
    sleep 4
    backend=$(grep -Eo '^ *[0-9]+$' "$work/rows" | head -1 | tr -d ' ')
    told 'PostgreSQL, a backend that sorts 200,000 rows' "$backend"
    exec 7>&-
    wait $!
fi
row 'PHP, half of 200,000 strings freed' php -r '$a = []; for ($i = 0; $i < 200000; $i++) $a[] = str_repeat("x", 50 + $i % 400);
    for ($i = 0; $i < 200000; $i += 2) unset($a[$i]); sleep(1000);'
if [ -x "$tokio" ] && has wrk; then
    strip -o "$work/canary" "$tokio"
    port=$(free_port)
    "$work/canary" --listen "127.0.0.1:$port" --udp-port $((port + 1)) --protocol udp --peer 127.0.0.1 >/dev/null 2>&1 &
    server=$!
    ready $server listening "$port"
    wrk -t 1 -c 100 -d 3 "http://127.0.0.1:$port/metrics" >/dev/null &
    sleep 1
    told 'Rust: tokio with tikv-jemallocator, stripped, under wrk' $server
    wait $!
    end $server
fi
row 'node, 300,000 objects' node -e 'let a = []; for (let i = 0; i < 3e5; i++) a.push({ i, s: "x" + i }); setTimeout(() => a, 1e7)'
(cd "$work" && javac J.java 2>/dev/null)
row 'java, 50 MB of arrays' java -Xmx256m -cp "$work" J
(cd "$work" && go build -o g g.go 2>/dev/null)
[ ! -x "$work/g" ] || row 'Go, 80 MB of slices' "$work/g"
