#!/bin/bash
# Runs in the machine of arm.sh: Debian's redis and Python under a small load, while the command reads them, borrows their threads and profiles
# them. A client compares each answer with the one that it expects. Exits with 1 if an answer differs, a call is refused or a service ends.
set -u
. /payload/lib.sh
export PATH=/payload/bin:$PATH
ln -s /proc/self/fd /dev/fd # for bash
echo "Linux $(uname -r)"
allocanary=/payload/allocanary status=0
bad() { echo "wrong: $*"; status=1; }

# Small keys that stay, and larger ones of which 19 of 20 go.
fill='for i = 1, 4000 do redis.call("set", "kept" .. i, string.rep("k", i % 700)) redis.call("set", "large" .. i, string.rep("x", 3000 + i)) end
    for i = 1, 4000 do if i % 20 > 0 then redis.call("del", "large" .. i) end end'
sum='local all = {} for i = 1, 4000, 40 do all[#all + 1] = redis.sha1hex(redis.call("get", "kept" .. i)) end return redis.sha1hex(table.concat(all))'
redis() { redis-cli -s "$work/redis" "$@"; }
redis_starts() { # PRELOAD [VARIABLE=VALUE...]
    rm -f "$work/redis"
    env LD_PRELOAD="$1" "${@:2}" redis-server --port 0 --unixsocket "$work/redis" --save '' --dir "$work" --jemalloc-bg-thread no >"$work/redis.log" 2>&1 &
    pid=$!
    ready "$pid" [ -S "$work/redis" ] || return 1
    redis eval "$fill" 0 >/dev/null
}
redis_asks() { redis eval "$sum" 0; }

cat >"$work/service.py" <<'PY'
import socket, threading, time, zlib
kept = [None] * 8
def busy():
    while True:
        blocks = [bytes(600 + i % 900) for i in range(300)]
        time.sleep(0.02)
for _ in range(2):
    threading.Thread(target=busy, daemon=True).start()
blocks = [bytes(2000 + i % 5000) for i in range(6000)]
kept[0] = blocks[::20]
del blocks
listener = socket.create_server(("127.0.0.1", 7411))
number = 0
while True:
    one, _ = listener.accept()
    with one, one.makefile("rw") as line:
        asked = line.readline()
        if not asked: # whether anybody listens
            continue
        rows = [bytes(str(i), "ascii") * 100 for i in range(int(asked))]
        number += 1
        kept[1 + number % 7] = rows[::10]
        line.write(f"{zlib.crc32(b''.join(rows))}\n")
        line.flush()
PY
python_starts() { # PRELOAD [VARIABLE=VALUE...]
    env LD_PRELOAD="$1" PYTHONMALLOC=malloc "${@:2}" python3 -S -E "$work/service.py" >"$work/python.log" 2>&1 &
    pid=$!
    ready "$pid" listening 7411
}
python_asks() {
    local answer
    exec 3<>/dev/tcp/127.0.0.1/7411 && echo 300 >&3 && read -r answer <&3
    exec 3>&-
    echo "$answer"
}

client() { # SERVICE EXPECTED: asks again and again, until the file `stop` is there.
    local asked=0 wrong=0
    while [ ! -e "$work/stop" ]; do
        asked=$((asked + 1))
        [ "$("$1_asks" 2>&1)" = "$2" ] || wrong=$((wrong + 1))
        sleep 1 # the machine is slow
    done
    echo "$asked $wrong" >"$work/client"
}

shown() {
    jq -r '(.heaps[] | "\(.allocator): \(.parts_bytes.live) bytes live, \(.parts_bytes.cached) cached by threads, \(.sure)")' "$1"
}

of() { # SERVICE: all of it for one service.
    "$1_starts" '' || { bad "$1 did not start: $(cat "$work"/*.log)"; return; }
    local expected forecast given made=0 refused=0
    expected=$("$1_asks")
    echo && echo "## $1 (process $pid), which answers $expected"
    reading "$pid" >"$work/heap" || bad "heap of $1: $(cat "$work/why")"
    echo "heap: $(shown "$work/heap")"
    [ "$1" != redis ] || echo "redis itself: $(redis info memory | tr -d '\r' | grep allocator_allocated) bytes"
    "$allocanary" "$pid" >"$work/door" 2>"$work/why" || bad "allocanary $pid: $(cat "$work/why")"
    head -n 24 "$work/door"
    "$allocanary" give-back "$pid" --dry-run || bad "a dry run of $1"
    "$allocanary" give-back "$pid" --yes --json >"$work/given" 2>"$work/why" || bad "give-back of $1: $(cat "$work/why")"
    read -r forecast given <<<"$(jq -r '"\(.reclaimable_bytes) \(.before_bytes - .after_bytes)"' "$work/given")"
    echo "| $1, idle | forecast $(mib "$forecast") MiB | given $(mib "$given") MiB |"
    [ "$("$1_asks")" = "$expected" ] || bad "the answer of $1 has changed"

    client "$1" "$expected" & local asks=$!
    for _ in $(seq "${CALLS:-20}"); do
        "$allocanary" give-back "$pid" --yes --json >"$work/given" 2>"$work/why" && made=$((made + 1)) || { refused=$((refused + 1)); tail -n 1 "$work/why"; }
    done
    reading "$pid" >"$work/heap" && echo "heap under load: $(shown "$work/heap")"
    "$allocanary" "$pid" >"$work/door" 2>"$work/why" || bad "allocanary $pid under load: $(cat "$work/why")"
    touch "$work/stop"
    wait $asks
    rm "$work/stop"
    read -r asked wrong <"$work/client"
    echo "| $1, under load | commands $((made + refused)) | done $made | refused $refused | answers $asked | wrong $wrong |"
    [ "$wrong $refused" = "0 0" ] && kill -0 "$pid" || bad "$1 under load"
    end "$pid"

    "$1_starts" /payload/preload-profile ALLOCANARY_PRELOAD=profile=16KiB || { bad "$1 did not start with a profile: $(cat "$work"/*.log)"; return; }
    [ "$("$1_asks")" = "$expected" ] || bad "the answer of $1 with a profile differs"
    "$allocanary" who "$pid" >"$work/who" 2>"$work/why" || bad "who of $1: $(cat "$work/why")"
    head -n 24 "$work/who"
    [ "$("$1_asks")" = "$expected" ] || bad "the answer of $1 with a profile has changed"
    end "$pid"
}
for service in ${SERVICES:-redis python}; do of "$service"; done
exit $status
