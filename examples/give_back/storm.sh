#!/bin/bash
# The table of docs/give-back.md: programs under load, whose allocators are called from outside again and again.
# Usage: examples/give_back/storm.sh [CALLS OF EACH] [PART of a row's name]. Needs cc; a program that is not installed is left out. The
# program of tokio's, with tikv-jemallocator, is one of the workspace's: `cargo build --release --locked --workspace --bins`. STORM is the
# example `storm` of crates/inside; without it it is built.
set -u -m # with job control, so that a client notices SIGINT
cd "$(dirname "$0")/../.." || exit 2
[ -n "${STORM:-}" ] || cargo build --release --locked --quiet -p allocanary-inside --example storm || exit 2
command=${STORM:-$PWD/target/release/examples/storm}
calls=${1:-100}
only=${2:-}
folder=$(mktemp -d)
children=()
end() { for child in "${children[@]}"; do kill "$child" 2>/dev/null; done; wait 2>/dev/null; rm -rf "$folder"; }
trap end EXIT

has() { command -v "$1" >/dev/null || { echo "left out: $1 is not installed" >&2; return 1; }; }

wanted() { [[ $1 == *$only* ]]; } # NAME

storm() { # NAME ALLOCATOR PID [CLIENT'S PID]: calls, and prints a row. The client is ended and asked for its errors.
    local row
    row=$("$command" "$2" "$3" "$calls" "$1" 2>>"$folder/errors")
    if [ -n "${4-}" ]; then
        kill -INT "$4" 2>/dev/null
        wait "$4"
    fi
    echo "$row $(client_errors) |"
}

echo '| program | calls | made | no thread to borrow | refused otherwise | median, us | longest, us | runs on | failed requests |'
echo '|---|--:|--:|--:|--:|--:|--:|---|--:|'

client_errors() { echo -; }
cc -O1 -pthread -o "$folder/holds" crates/inside/tests/programs/holds.c || exit 2
mkfifo "$folder/line"
for call in read poll epoll_wait nanosleep; do
    wanted "C, three threads allocate, one in $call" || continue
    sleep 100000 >"$folder/line" &
    children+=($!)
    "$folder/holds" "$call" storm <"$folder/line" >/dev/null &
    children+=($!)
    sleep 1
    storm "C, three threads allocate, one in $call" glibc $!
    kill "${children[@]: -2}"
done

if wanted 'python3, two threads allocate' && has python3; then
    cat >"$folder/p.py" <<'PY'
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
    PYTHONMALLOC=malloc python3 "$folder/p.py" &
    children+=($!)
    sleep 1
    storm 'python3, two threads allocate' glibc $!
    kill "${children[-1]}"
fi

if wanted 'redis-server (jemalloc) under redis-benchmark' && has redis-server && has redis-benchmark; then
    redis-server --port 0 --unixsocket "$folder/redis" --save '' --dir "$folder" >/dev/null &
    server=$!
    children+=($server)
    sleep 1
    redis-benchmark -s "$folder/redis" -t set,get -r 100000 -n 100000000 -q >"$folder/redis.out" 2>&1 &
    client_errors() { tr '\r' '\n' <"$folder/redis.out" | grep -c -i error; }
    storm 'redis-server (jemalloc) under redis-benchmark' jemalloc $server $!
    kill "$server"
fi

if wanted 'nginx under wrk' && has nginx && has wrk; then
    mkdir -p "$folder/www"
    head -c 20000 /dev/urandom >"$folder/www/f"
    cat >"$folder/nginx.conf" <<NGINX
daemon off; master_process off; pid $folder/nginx.pid; error_log $folder/nginx.log;
events { worker_connections 200; }
http { access_log off; server { listen 127.0.0.1:8089; location / { root $folder/www; } } }
NGINX
    nginx -c "$folder/nginx.conf" 2>/dev/null &
    server=$!
    children+=($server)
    sleep 1
    wrk -t 1 -c 20 -d 100000 http://127.0.0.1:8089/f >"$folder/wrk.out" 2>&1 &
    client_errors() { grep -E 'Socket errors|Non-2xx' "$folder/wrk.out" | grep -o '[0-9]\+' | paste -sd+ | grep . || echo 0; }
    storm 'nginx under wrk' glibc $server $!
    kill "$server"
fi

if wanted 'java, two threads compress' && has java && has javac; then
    cat >"$folder/J.java" <<'JAVA'
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
    (cd "$folder" && javac J.java)
    java -Xmx128m -cp "$folder" J &
    children+=($!)
    sleep 2
    client_errors() { echo -; }
    storm 'java, two threads compress' glibc $!
    kill "${children[-1]}"
fi

tokio=target/release/hyper
if wanted 'Rust: tokio and hyper with tikv-jemallocator under wrk' && [ -x "$tokio" ] && has wrk; then
    "$tokio" --listen 127.0.0.1:8088 >/dev/null 2>&1 &
    server=$!
    children+=($server)
    sleep 1
    wrk -t 1 -c 20 -d 100000 http://127.0.0.1:8088/ >"$folder/wrk.out" 2>&1 &
    client_errors() { grep -E 'Socket errors|Non-2xx' "$folder/wrk.out" | grep -o '[0-9]\+' | paste -sd+ | grep . || echo 0; }
    storm 'Rust: tokio and hyper with tikv-jemallocator under wrk' jemalloc $server $!
    kill "$server"
fi
touch "$folder/errors"
sort "$folder/errors" | uniq -c >&2
