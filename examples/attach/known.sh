#!/bin/bash
# Puts the recorder into six programs under load and takes it out again, many times. Afterwards it checks that each program lives and that
# its answers are right. In: the folder of the built binaries, and how many times for each program. Out: one line for each program.
#
#     examples/attach/known.sh target/release 84
#
# It needs gcc, g++, redis-server, redis-cli, redis-benchmark, nginx, python3, java and node. If a program is missing, it is left out, and
# a line says so. The loop itself is `cargo build --release -p allocanary-inside --example attaches`.
set -u
. "$(dirname "$0")/../lib.sh"
locate "${1:-}"
[ -x "$bin/examples/attaches" ] || fail "wanted $bin/examples/attaches, found none: cargo build --release -p allocanary-inside --example attaches"
times=${2:-84}
read -ra only <<<"${3:-}"
ms=${ATTACHED_MS:-40}

# storm NAME PID: runs the loop, and removes the traces as they are written.
storm() {
  mkdir -p "$work/traces"
  (while [ -d "$work/traces" ]; do find "$work/traces" -name '*.trace' -mmin +0.2 -delete 2>/dev/null; sleep 2; done) &
  local cleaner=$!
  local line
  line=$("$bin/examples/attaches" "$2" "$bin/preload-record" "$work/traces" "$times" "$ms" 2>"$work/$1.said")
  end $cleaner
  rm -rf "$work/traces"
  echo "$1: $line"
  sed "s/^/    /" "$work/$1.said"
}

# verdict NAME RESULT: what the program itself reports about its answers.
verdict() { echo "    answers: $2"; }

if wanted c "${only[@]}" && has gcc; then
  echo 'int opened_function(void) { return 7; }' > "$work/opened.c"
  gcc -shared -fPIC -o "$work/libopened.so" "$work/opened.c"
  gcc -O1 -g -pthread -o "$work/busy" "$root/crates/inside/tests/programs/busy.c" -ldl
  mkfifo "$work/busy.in"
  "$work/busy" opens "$work/libopened.so" forks < "$work/busy.in" > "$work/busy.out" & pid=$!
  exec 7> "$work/busy.in"; sleep 0.3
  storm c $pid
  echo >&7; sleep 0.5
  verdict c "$(tail -1 "$work/busy.out")"
  end $pid; exec 7>&-
fi

if wanted cpp "${only[@]}" && has g++; then
  g++ -O1 -g -pthread -o "$work/maps" "$here/maps.cpp"
  "$work/maps" > "$work/maps.out" & pid=$!; sleep 0.3
  storm cpp $pid
  sleep 1.2; verdict cpp "$(tail -1 "$work/maps.out")"
  end $pid
fi

if wanted redis "${only[@]}" && has redis-server redis-cli redis-benchmark; then
  port=$(free_port)
  redis-server --port "$port" --save '' --dir "$work" > "$work/redis.log" & pid=$!; ready $pid listening "$port"
  for key in $(seq 200); do echo "SET known:$key value-$key-$(printf 'x%.0s' $(seq $((key * 5))))"; done | redis-cli -p "$port" > /dev/null
  before=$(for key in $(seq 200); do echo "GET known:$key"; done | redis-cli -p "$port" | sha256sum)
  redis-benchmark -p "$port" -c 20 -n 100000000 -r 100000 -d 200 -t set,get,lpush,lpop > "$work/benchmark" 2>&1 & load=$!
  storm redis $pid
  end $load
  after=$(for key in $(seq 200); do echo "GET known:$key"; done | redis-cli -p "$port" | sha256sum)
  verdict redis "$([ "$before" = "$after" ] && echo "200 values are the same" || echo "**values differ**"), errors of the load: $(grep -ci error "$work/benchmark")"
  end $pid
fi

if wanted nginx "${only[@]}" && has nginx python3; then
  port=$(free_port)
  mkdir -p "$work/www" "$work/logs"; head -c 200000 /dev/urandom | base64 > "$work/www/file.txt"; chmod -R a+rX "$work"
  cat > "$work/nginx.conf" <<N
daemon off; master_process off; pid $work/nginx.pid; error_log $work/logs/error.log;
events { worker_connections 256; }
http { access_log off; client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
  gzip on; gzip_min_length 1; gzip_types text/plain; server { listen 127.0.0.1:$port; root $work/www; } }
N
  nginx -c "$work/nginx.conf" > "$work/nginx.log" 2>&1 & pid=$!; ready $pid listening "$port"
  python3 "$here/fetch.py" "$port" "$work/www/file.txt" > "$work/fetch.out" & load=$!
  storm nginx $pid
  sleep 1.2; end $load
  verdict nginx "$(tail -1 "$work/fetch.out")"
  end $pid
fi

if wanted python "${only[@]}" && has python3; then
  PYTHONMALLOC=malloc python3 "$here/objects.py" > "$work/python.out" & pid=$!; ready $pid [ -s "$work/python.out" ]
  storm python $pid
  sleep 1.2; verdict python "$(tail -1 "$work/python.out")"
  end $pid
fi

if wanted java "${only[@]}" && has java; then
  java -Xmx64m "$here/Sums.java" > "$work/java.out" & pid=$!; sleep 4
  storm java $pid
  sleep 1.2; verdict java "$(tail -1 "$work/java.out")"
  end $pid
fi

if wanted node "${only[@]}" && has node; then
  node "$here/buffers.js" > "$work/node.out" & pid=$!; sleep 1
  storm node $pid
  sleep 1.2; verdict node "$(tail -1 "$work/node.out")"
  end $pid
fi
