#!/bin/bash
# The table of docs/lab/give-back.md: programs under load, whose allocators are called from outside again and again.
# Usage: examples/give_back/storm.sh [CALLS OF EACH] [PART of a row's name]. Needs cc; a program that is not installed is left out. The
# program of tokio's, with tikv-jemallocator, is one of the workspace's: `cargo build --release --locked --workspace --bins`. STORM is the
# example `storm` of crates/inside; without it it is built.
set -u -m # with job control, so that a client notices SIGINT
. "$(dirname "$0")/../lib.sh"
needs cc
cd "$root" || exit 2
[ -n "${STORM:-}" ] || build --example storm
command=${STORM:-$root/target/release/examples/storm}
calls=${1:-100}
only=${2:-}

chosen() { [[ $1 == *$only* ]]; } # NAME

storm() { # NAME ALLOCATOR PID [CLIENT'S PID]: calls, and prints a row. The client is ended and asked for its errors.
    local row
    row=$("$command" "$2" "$3" "$calls" "$1" 2>>"$work/errors")
    if [ -n "${4-}" ]; then
        kill -INT "$4" 2>/dev/null
        wait "$4"
    fi
    echo "$row $(client_errors) |"
}

echo '| program | calls | made | no thread to borrow | refused otherwise | median, us | longest, us | runs on | failed requests |'
echo '|---|--:|--:|--:|--:|--:|--:|---|--:|'

client_errors() { echo -; }
wrk_errors() { grep -E 'Socket errors|Non-2xx' "$work/wrk.out" | grep -o '[0-9]\+' | awk '{ sum += $1 } END { print sum + 0 }'; }
cc -O1 -pthread -o "$work/holds" crates/inside/tests/programs/holds.c || exit 2
mkfifo "$work/line"
for call in read poll epoll_wait nanosleep; do
    chosen "C, three threads allocate, one in $call" || continue
    sleep 100000 >"$work/line" &
    writer=$!
    "$work/holds" "$call" storm <"$work/line" >/dev/null &
    server=$!
    sleep 1
    storm "C, three threads allocate, one in $call" glibc $server
    end $writer $server
done

if chosen 'python3, two threads allocate' && has python3; then
    cat >"$work/p.py" <<'PY'
import threading, time
def work():
    while True:
        x = [bytes(1000 + i % 500) for i in range(20000)]
        del x[::2]
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
while True:
    before = time.monotonic()
    time.sleep(0.05)
    assert time.monotonic() - before >= 0.05
PY
    PYTHONMALLOC=malloc python3 "$work/p.py" &
    server=$!
    sleep 1
    storm 'python3, two threads allocate' glibc $server
    end $server
fi

if chosen 'redis-server (jemalloc) under redis-benchmark' && has redis-server redis-benchmark; then
    start_redis
    redis-benchmark -s "$work/redis" -t set,get -r 100000 -n 100000000 -q >"$work/redis.out" 2>&1 &
    client_errors() { tr '\r' '\n' <"$work/redis.out" | grep -c -i error; }
    storm 'redis-server (jemalloc) under redis-benchmark' jemalloc "$pid" $!
    end "$pid"
fi

if chosen 'nginx under wrk' && has nginx wrk; then
    port=$(free_port)
    mkdir -p "$work/www"
    head -c 20000 /dev/urandom >"$work/www/f"
    cat >"$work/nginx.conf" <<NGINX
daemon off; master_process off; pid $work/nginx.pid; error_log $work/nginx.log;
events { worker_connections 200; }
http { access_log off; server { listen 127.0.0.1:$port; location / { root $work/www; } } }
NGINX
    nginx -c "$work/nginx.conf" 2>/dev/null &
    server=$!
    ready $server listening "$port"
    wrk -t 1 -c 20 -d 100000 "http://127.0.0.1:$port/f" >"$work/wrk.out" 2>&1 &
    client_errors() { wrk_errors; }
    storm 'nginx under wrk' glibc $server $!
    end $server
fi

if chosen 'java, two threads compress' && has java javac; then
    cat >"$work/J.java" <<'JAVA'
import java.util.zip.*;
public class J {
    public static void main(String[] a) throws Exception {
        for (int t = 0; t < 2; t++) new Thread(() -> {
            byte[] in = new byte[100000], out = new byte[100000];
            while (true) { Deflater d = new Deflater(); d.setInput(in); d.finish(); d.deflate(out); d.end(); }
        }).start();
        java.net.ServerSocket s = new java.net.ServerSocket(0);
        while (true) s.accept();
    }
}
JAVA
    (cd "$work" && javac J.java)
    java -Xmx128m -cp "$work" J &
    server=$!
    sleep 2
    client_errors() { echo -; }
    storm 'java, two threads compress' glibc $server
    end $server
fi

tokio=target/release/hyper
if chosen 'Rust: tokio and hyper with tikv-jemallocator under wrk' && [ -x "$tokio" ] && has wrk; then
    port=$(free_port)
    "$tokio" --listen "127.0.0.1:$port" >/dev/null 2>&1 &
    server=$!
    ready $server listening "$port"
    wrk -t 1 -c 20 -d 100000 "http://127.0.0.1:$port/" >"$work/wrk.out" 2>&1 &
    client_errors() { wrk_errors; }
    storm 'Rust: tokio and hyper with tikv-jemallocator under wrk' jemalloc $server $!
    end $server
fi
touch "$work/errors"
sort "$work/errors" | uniq -c >&2
