#!/bin/bash
# Puts the recorder into six programs under load and takes it out again, many times. Afterwards it checks that each program lives and that
# its answers are right. In: the folder of the built binaries, and how many times for each program. Out: one line for each program.
#
#     examples/attach/known.sh target/release 84
#
# It needs gcc, g++, redis-server, redis-cli, redis-benchmark, nginx, python3, java and node. If a program is missing, it is left out, and
# a line says so. The loop itself is `cargo build --release -p allocanary-inside --example attaches`.
set -u
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "${1:-target/release}" && pwd)
times=${2:-84}
only=${3:-}
ms=${ATTACHED_MS:-40}
work=$(mktemp -d)
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done; rm -rf "$work"' EXIT

wanted() { [ -z "$only" ] || [[ " $only " == *" $1 "* ]]; }
missing() { for name in "$@"; do command -v "$name" >/dev/null || { echo "$name is not here: left out"; return 0; }; done; return 1; }

# storm NAME PID: runs the loop, and removes the traces as they are written.
storm() {
  mkdir -p "$work/traces"
  (while [ -d "$work/traces" ]; do find "$work/traces" -name '*.trace' -mmin +0.2 -delete 2>/dev/null; sleep 2; done) &
  local cleaner=$!
  local line
  line=$("$bin/examples/attaches" "$2" "$bin/preload-record" "$work/traces" "$times" "$ms" 2>"$work/$1.said")
  kill $cleaner 2>/dev/null; wait $cleaner 2>/dev/null
  rm -rf "$work/traces"
  echo "$1: $line"
  sed "s/^/    /" "$work/$1.said"
}

# verdict NAME RESULT: what the program itself reports about its answers.
verdict() { echo "    answers: $2"; }

if wanted c && ! missing gcc; then
  echo 'int opened_function(void) { return 7; }' > "$work/opened.c"
  gcc -shared -fPIC -o "$work/libopened.so" "$work/opened.c"
  gcc -O1 -g -pthread -o "$work/busy" "$here/../../crates/inside/tests/programs/busy.c" -ldl
  mkfifo "$work/busy.in"
  "$work/busy" opens "$work/libopened.so" forks < "$work/busy.in" > "$work/busy.out" & pid=$!; pids+=($pid)
  exec 7> "$work/busy.in"; sleep 0.3
  storm c $pid
  echo >&7; sleep 0.5
  verdict c "$(tail -1 "$work/busy.out")"
  kill $pid; exec 7>&-
fi

if wanted cpp && ! missing g++; then
  g++ -O1 -g -pthread -o "$work/maps" "$here/maps.cpp"
  "$work/maps" > "$work/maps.out" & pid=$!; pids+=($pid); sleep 0.3
  storm cpp $pid
  sleep 1.2; verdict cpp "$(tail -1 "$work/maps.out")"
  kill $pid
fi

if wanted redis && ! missing redis-server redis-cli redis-benchmark; then
  redis-server --port 7391 --save '' --dir "$work" > "$work/redis.log" & pid=$!; pids+=($pid); sleep 0.7
  for key in $(seq 200); do echo "SET known:$key value-$key-$(printf 'x%.0s' $(seq $((key * 5))))"; done | redis-cli -p 7391 > /dev/null
  before=$(for key in $(seq 200); do echo "GET known:$key"; done | redis-cli -p 7391 | sha256sum)
  redis-benchmark -p 7391 -c 20 -n 100000000 -r 100000 -d 200 -t set,get,lpush,lpop > "$work/benchmark" 2>&1 & load=$!; pids+=($load)
  storm redis $pid
  kill $load; wait $load 2>/dev/null
  after=$(for key in $(seq 200); do echo "GET known:$key"; done | redis-cli -p 7391 | sha256sum)
  verdict redis "$([ "$before" = "$after" ] && echo "200 values are the same" || echo "**values differ**"), errors of the load: $(grep -ci error "$work/benchmark")"
  kill $pid
fi

if wanted nginx && ! missing nginx python3; then
  mkdir -p "$work/www" "$work/logs"; head -c 200000 /dev/urandom | base64 > "$work/www/file.txt"; chmod -R a+rX "$work"
  cat > "$work/nginx.conf" <<N
daemon off; master_process off; pid $work/nginx.pid; error_log $work/logs/error.log;
events { worker_connections 256; }
http { access_log off; client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
  gzip on; gzip_min_length 1; gzip_types text/plain; server { listen 127.0.0.1:7392; root $work/www; } }
N
  nginx -c "$work/nginx.conf" > "$work/nginx.log" 2>&1 & pid=$!; pids+=($pid); sleep 0.5
  python3 "$here/fetch.py" 7392 "$work/www/file.txt" > "$work/fetch.out" & load=$!; pids+=($load)
  storm nginx $pid
  sleep 1.2; kill $load; wait $load 2>/dev/null
  verdict nginx "$(tail -1 "$work/fetch.out")"
  kill $pid
fi

if wanted python && ! missing python3; then
  PYTHONMALLOC=malloc python3 "$here/objects.py" > "$work/python.out" & pid=$!; pids+=($pid); sleep 0.7
  storm python $pid
  sleep 1.2; verdict python "$(tail -1 "$work/python.out")"
  kill $pid
fi

if wanted java && ! missing java; then
  java -Xmx64m "$here/Sums.java" > "$work/java.out" & pid=$!; pids+=($pid); sleep 4
  storm java $pid
  sleep 1.2; verdict java "$(tail -1 "$work/java.out")"
  kill $pid
fi

if wanted node && ! missing node; then
  node "$here/buffers.js" > "$work/node.out" & pid=$!; pids+=($pid); sleep 1
  storm node $pid
  sleep 1.2; verdict node "$(tail -1 "$work/node.out")"
  kill $pid
fi
