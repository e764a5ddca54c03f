#!/usr/bin/env bash
# What a trace with stacks costs on disk and to read, compared with heaptrack: the bytes of the two files, and the processor time (user
# and system) and highest resident memory of `who` and of heaptrack_print. They alternate, ROUNDS times (default 3). Medians.
#
#   examples/traces/costs.sh [FOLDER OF allocanary AND ITS preloads] [PROGRAM...]     # needs heaptrack, python3 and sqlite3
set -euo pipefail
bin=$(realpath "${1:-target/release}")
shift || true
rounds=${ROUNDS:-3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for tool in heaptrack heaptrack_print sqlite3 /usr/bin/python3 /usr/bin/time "$bin/allocanary"; do
    command -v "$tool" >/dev/null || { echo "costs.sh: $tool is missing: install it" >&2; exit 1; }
done

# Seconds of user and system time, and KiB: one line more in a file.
taken() { # FILE COMMAND...
    local to=$1
    shift
    /usr/bin/time -a -o "$to" -f '%U %S %M' "$@" >/dev/null 2>&1
}
median() { # FILE EXPRESSION
    awk "{ print $2 }" "$1" | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}

row() { # NAME PROGRAM...
    local name=$1 trace kept
    shift
    [ ${#only[@]} = 0 ] || [[ " ${only[*]} " == *" $name "* ]] || return 0
    rm -rf "$folder"/*
    "$bin/allocanary" record --max-size 4GiB -o "$folder/traces" -- "$@" >/dev/null 2>&1
    heaptrack -o "$folder/heaptrack" "$@" >/dev/null 2>&1
    # A launcher makes several traces.
    trace=$(ls -S "$folder"/traces/*.trace | head -1)
    kept=$(ls -S "$folder"/heaptrack.* | head -1)
    for _ in $(seq "$rounds"); do
        taken "$folder/who" "$bin/allocanary" who "$trace"
        taken "$folder/print" heaptrack_print "$kept"
    done
    "$bin/allocanary" report "$trace" >"$folder/info"
    printf '| %s | %.1f M | %.1f MiB | %s | %.2f MiB | %.2f s | %d MB | %.2f s | %d MB |\n' "$name" \
        "$(awk '$1 == "events" { print $2 / 1e6 }' "$folder/info")" \
        "$(stat -c '%s' "$trace" | awk '{ print $1 / 1048576 }')" \
        "$(sed -n 's/^events.* in the file (\(.*\) before it was packed).*/\1/p' "$folder/info")" \
        "$(stat -c '%s' "$kept" | awk '{ print $1 / 1048576 }')" \
        "$(median "$folder/who" '$1 + $2')" "$(median "$folder/who" 'int($3 / 1000)')" \
        "$(median "$folder/print" '$1 + $2')" "$(median "$folder/print" 'int($3 / 1000)')"
}

only=("$@")
echo '| program | events | trace | before it was packed | heaptrack | `who`: CPU | most resident | heaptrack_print: CPU | most resident |'
echo '|---|--:|--:|--:|--:|--:|--:|--:|--:|'
PYTHONMALLOC=malloc row python3-malloc /usr/bin/python3 -c 'x = [{"a": [i] * 9} for i in range(900000)]'
row sqlite3 sqlite3 :memory: 'create table t(a, b);
    with recursive c(x) as (select 1 union all select x + 1 from c where x < 1100000) insert into t select x, hex(randomblob(9)) || x from c;
    create index i on t(b); select sum(length(b)) from t; select b, count(*) from t group by substr(b, 1, 3) order by 2 limit 9;'
row node node -e 'let keep = []; for (let i = 0; i < 300000; i++) {
    const text = require("crypto").createHash("sha1").update(Buffer.alloc(2000 + i % 3000)).digest("hex");
    keep.push(JSON.parse(`{"a": "${text}", "b": [${i}, 2, 3]}`)); if (keep.length > 20000) keep = keep.slice(10000); }'
