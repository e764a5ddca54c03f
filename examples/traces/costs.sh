#!/usr/bin/env bash
# What a trace with stacks costs to record, on disk and to read, compared with heaptrack: the processor time (user and system) of the
# program with its recorder, the bytes of the two files, and the time and highest resident memory of `who` and of heaptrack_print. heaptrack
# looks up names while the program runs, and `who` does so afterwards: the last table has the sum of both steps. They alternate, ROUNDS times
# (default 3). Medians.
#
#   examples/traces/costs.sh [FOLDER OF allocanary AND ITS preloads] [PROGRAM...]     # needs heaptrack, python3 and sqlite3
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs heaptrack heaptrack_print sqlite3 /usr/bin/python3 /usr/bin/time
locate "${1:-}"
only=("${@:2}")
rounds=${ROUNDS:-3}

# Seconds of user and system time, and KiB: one line more in a file.
taken() { # FILE COMMAND...
    local to=$1
    shift
    /usr/bin/time -a -o "$to" -f '%U %S %M' "$@" >/dev/null 2>&1
}
middle() { awk "{ print $2 }" "$1" | median; } # FILE EXPRESSION

row() { # NAME PROGRAM...
    local name=$1 trace kept
    shift
    wanted "$name" "${only[@]}" || return 0
    rm -rf "${work:?}"/{traces,heaptrack.*,plain,record,heap,who,print}
    for _ in $(seq "$rounds"); do
        rm -rf "$work"/traces "$work"/heaptrack.*
        taken "$work/plain" "$@"
        taken "$work/record" "$allocanary" record --max-size 4GiB -o "$work/traces" -- "$@"
        taken "$work/heap" heaptrack -o "$work/heaptrack" "$@"
        # A launcher makes several traces.
        trace=$(ls -S "$work"/traces/*.trace | head -1)
        kept=$(ls -S "$work"/heaptrack.* | head -1)
        taken "$work/who" "$allocanary" who "$trace"
        taken "$work/print" heaptrack_print "$kept"
    done
    "$allocanary" report "$trace" >"$work/info"
    printf '| %s | %.1f M | %.1f MiB | %s | %.2f MiB | %.2f s | %d MB | %.2f s | %d MB |\n' "$name" \
        "$(awk '$1 == "events" { print $2 / 1e6 }' "$work/info")" \
        "$(stat -c '%s' "$trace" | awk '{ print $1 / 1048576 }')" \
        "$(sed -n 's/^events.* in the file (\(.*\) before it was packed).*/\1/p' "$work/info")" \
        "$(stat -c '%s' "$kept" | awk '{ print $1 / 1048576 }')" \
        "$(middle "$work/who" '$1 + $2')" "$(middle "$work/who" 'int($3 / 1000)')" \
        "$(middle "$work/print" '$1 + $2')" "$(middle "$work/print" 'int($3 / 1000)')"
    paste -d' ' "$work"/{plain,record,who,heap,print} | awk '{ print $1 + $2, $4 + $5, $7 + $8, $10 + $11, $13 + $14, ($4 + $5 + $7 + $8) / ($10 + $11 + $13 + $14) }' |
        awk -v name="$name" '{ for (at = 1; at <= NF; at++) print at, $at }' >"$work/each"
    printf '| %s | %s |\n' "$name" "$(for at in {1..5}; do
        awk -v at="$at" '$1 == at { print $2 }' "$work/each" | median | awk '{ printf "%.2f s | ", $1 }'
    done)$(awk '$1 == 6 { print $2 }' "$work/each" | median | awk '{ printf "%.2f", $1 }')" >>"$work/sums"
}

echo '| program | events | trace | before it was packed | heaptrack | `who`: CPU | most resident | heaptrack_print: CPU | most resident |'
echo '|---|--:|--:|--:|--:|--:|--:|--:|--:|'
PYTHONMALLOC=malloc row python3-malloc /usr/bin/python3 -c 'x = [{"a": [i] * 9} for i in range(900000)]'
row sqlite3 sqlite3 :memory: 'create table t(a, b);
    with recursive c(x) as (select 1 union all select x + 1 from c where x < 1100000) insert into t select x, hex(randomblob(9)) || x from c;
    create index i on t(b); select sum(length(b)) from t; select b, count(*) from t group by substr(b, 1, 3) order by 2 limit 9;'
! has node || row node node -e 'let keep = []; for (let i = 0; i < 300000; i++) {
    const text = require("crypto").createHash("sha1").update(Buffer.alloc(2000 + i % 3000)).digest("hex");
    keep.push(JSON.parse(`{"a": "${text}", "b": [${i}, 2, 3]}`)); if (keep.length > 20000) keep = keep.slice(10000); }'
echo
echo '| program | plain: CPU | `record` | `who` | heaptrack | heaptrack_print | `record` and `who` / heaptrack and heaptrack_print |'
echo '|---|--:|--:|--:|--:|--:|--:|'
cat "$work/sums"
