#!/bin/bash
# The table of docs/lab/give-back.md: what `allocanary give-back` forecasts for programs that have freed much and then wait, and what they
# gave back: the decrease of their resident memory.
# Usage: examples/give_back/forecast.sh [FOLDER of allocanary] [PART of a row's name]. Needs jq and cc; a program that is
# not installed is left out.
set -u
. "$(dirname "$0")/../lib.sh"
needs jq cc
locate "${1:-}"
cd "$root" || exit 2
only=${2:-}

told() { # NAME PID: gives back, prints a row, and ends the program.
    "$allocanary" give-back "$2" --yes --json >"$work/given" 2>"$work/why"
    jq -r --arg name "$1" '
        def mib: . / 1048576 * 10 | round / 10;
        if .calls == [] then "| \($name) | | \(.before_bytes | mib) | 0 | | nothing was called |"
        elif .reclaimable_bytes == null or .after_bytes == null then "| \($name) | | \(.before_bytes | mib) | | | \([.calls[]?.error] | join("; ")) |"
        else (.before_bytes - .after_bytes) as $given |
            "| \($name) | \([.calls[].allocator] | unique | join(", ")) | \(.before_bytes | mib) | \(.reclaimable_bytes | mib) | \($given | mib) | " +
            "\(if .reclaimable_bytes > 0 then (($given - .reclaimable_bytes) / .reclaimable_bytes * 1000 | round / 10 | "\(.) %") else "" end) |" end' "$work/given" ||
        echo "$1: $(cat "$work/why")" >&2
    end "$2"
}

row() { # NAME COMMAND...: starts a program that frees and then rests, waits until it rests, and prints a row.
    local name=$1
    shift
    [[ $name == *$only* ]] && has "$1" || return
    "$@" >/dev/null 2>&1 &
    rest $!
    told "$name" $!
}

rest() { # PID: waits until it waits for something, and has used at most 5 % of a processor in a second. Threads of `known` look around.
    local before now state
    before=$(cpu_ms_of "$1")
    while sleep 1 && now=$(cpu_ms_of "$1"); do
        read -r _ _ state _ <"/proc/$1/stat"
        [ "$state" != S ] || [ $((now - before)) -gt 50 ] || break
        before=$now
    done 2>/dev/null
}

fed() { # NAME INPUT COMMAND...: the same for a program that works through its input and waits for more.
    local name=$1 input=$2
    shift 2
    [[ $name == *$only* ]] && has "$1" || return
    rm -f "$work/input"
    mkfifo "$work/input"
    "$@" <"$work/input" >/dev/null 2>&1 &
    exec 7>"$work/input"
    printf '%s\n' "$input" >&7
    rest $!
    told "$name" $!
    exec 7>&-
}

# The program itself: a version manager's python3 is a script.
python3=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null || echo python3)
echo '| program | allocator | resident before | forecast | given back | off by |'
echo '|---|---|--:|--:|--:|--:|'
python='
import random, sys, threading, time
random.seed(1)
def work():
    blocks = [bytes(2000 + random.randrange(9000)) for _ in range(20000)]
    kept.append(blocks[::40])
kept = []
threads = [threading.Thread(target=work) for _ in range(int(sys.argv[1]))]
if not threads: work()
for one in threads: one.start()
for one in threads: one.join()
time.sleep(10000)'
row 'python3, 19 of 20 larger objects freed' "$python3" -c "$python" 0
row 'python3, the same in four threads' "$python3" -c "$python" 4
library=$(preload_of "jemalloc of Debian") && row 'python3 with libjemalloc2' env LD_PRELOAD="$library" MALLOC_CONF=dirty_decay_ms:-1 "$python3" -c "$python" 0
row 'perl, 19 of 20 strings freed' perl -e '
    my @a = map { "x" x (100 + $_ % 5000) } 1 .. 40000; for (0 .. $#a) { undef $a[$_] if $_ % 20 } sleep 10000'
row 'ruby, 19 of 20 strings freed' ruby -e '
    a = (1..40000).map { |i| "x" * (1000 + i % 5000) }; a = a.each_with_index.select { |_, i| i % 20 == 0 }.map(&:first); GC.start; GC.start
    sleep'
row 'node, 19 of 20 buffers freed' node --expose-gc -e '
    let a = []; for (let i = 0; i < 30000; i++) a.push(Buffer.alloc(5000 + i % 9000, 1));
    a = a.filter((_, i) => i % 20 === 0);
    for (let i = 1; i < 8; i++) setTimeout(gc, 300 * i);
    setTimeout(() => a, 1e7)'
fed 'sqlite3, one of two databases in memory detached' "$(
    echo "attach ':memory:' as other; create table t (s text); create table other.t (s text);"
    for _ in $(seq 200); do
        echo "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) insert into other.t select hex(randomblob(200 + i % 80)) from n;
            insert into t select hex(randomblob(2000));"
    done
    echo "detach other;")" sqlite3 :memory:
fed 'mawk, 19 of 20 elements deleted' go mawk -W interactive '{ for (i = 0; i < 40000; i++) a[i] = sprintf("%3000d", i)
    for (i = 0; i < 40000; i++) if (i % 20) delete a[i]; print "" }'
if [[ redis-server == *$only* ]] && has redis-server redis-cli; then
    start_redis
    redis-cli -s "$work/redis" config set jemalloc-bg-thread no >/dev/null
    redis-cli -s "$work/redis" eval 'for i = 1, 30000 do redis.call("set", "key" .. i, string.rep("x", 6000 + i % 3000)) end
        for i = 1, 30000 do if i % 20 > 0 then redis.call("del", "key" .. i) end end' 0 >/dev/null
    rest "$pid"
    told 'redis-server, 19 of 20 keys deleted' "$pid"
fi
if [[ java == *$only* ]] && has java javac; then
    cat >"$work/J.java" <<'JAVA'
import java.util.zip.*;
public class J {
    public static void main(String[] a) throws Exception {
        Deflater[] all = new Deflater[400];
        byte[] in = new byte[100000], out = new byte[100000];
        for (int i = 0; i < all.length; i++) {
            all[i] = new Deflater();
            all[i].setInput(in);
            all[i].finish();
            all[i].deflate(out);
        }
        for (int i = 0; i < all.length; i++) if (i % 20 != 0) all[i].end();
        new java.net.ServerSocket(0).accept();
    }
}
JAVA
    (cd "$work" && javac J.java)
    row 'java, 19 of 20 compressors ended' java -Xmx64m -cp "$work" J
fi
cc -O1 -pthread -o "$work/known" examples/heap/known.c -ldl || exit 2
for case in one threads blocked; do
    fed "C, \`known $case\`" build "$work/known" $case
done
