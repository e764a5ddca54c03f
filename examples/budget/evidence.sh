#!/usr/bin/env bash
# Programs whose live memory fits the limit of their control group, and whose kept memory does not. Counts how many runs the kernel
# killed, without a budget and with one. Needs root, for the control group (v1 or v2), cc, c++, rustc, python3 and java. Prints a Markdown
# table.
#
#   examples/budget/evidence.sh [REPEATS] [PART of a row's name]
#
# PRELOADS is a folder that has the preloads and the command; without it they are built. `live` is the most bytes that the program held at
# the same time. The recorder counts them, without the JVM's own memory and without Python's small objects. `peak` is the highest resident
# memory of one run without a limit.
set -euo pipefail
cd "$(dirname "$0")/../.."
repeats=${1:-20}
only=${2:-}
preloads=${PRELOADS:-target/release}
[ -n "${PRELOADS:-}" ] || cargo build --release --quiet --locked --workspace --bins --features prometheus,leaks
preloads=$(realpath "$preloads")
here=$PWD/examples/budget
out=$(mktemp -d)
# shellcheck source=group.sh
. "$here/group.sh"
trap 'end_group; rm -rf "$out"' EXIT
cc -O2 -pthread -o "$out/bursts" "$here/bursts.c"
cc -O2 -pthread -o "$out/cache" "$here/cache.c"
c++ -std=c++17 -O2 -pthread -o "$out/documents" "$here/documents.cpp"
rustc --edition 2021 -O -o "$out/tables" "$here/tables.rs"
javac -d "$out" "$here/Compressors.java"
python=$(python3 -c 'import sys; print(sys.executable)')
java=$(realpath "$(command -v java)")

# Columns: name; preload, and a setting of both runs; limit in MiB; command.
rows=(
    "C, bursts in 16 threads|jemalloc|104|$out/bursts 64 4 2"
    "C, bursts in 16 threads|mimalloc|104|$out/bursts 64 4 2"
    "C, bursts in 16 threads|system|104|$out/bursts 64 4 2"
    "C, bursts in 16 threads|system trim_threshold=131072|104|$out/bursts 64 4 2"
    "C, a cache built anew|jemalloc|96|$out/cache 32 12 8"
    "C++, an index of documents|jemalloc|44|$out/documents"
    "Rust, tables|system|96|$out/tables 50000 10 8"
    "python3, answers of growing size|system|112|$python $here/blobs.py"
    "java, compressors|system|176|$java -Xmx24m -Xshare:auto -XX:TieredStopAtLevel=1 -cp $out Compressors"
)

# Runs a program in the group, in a separate shell. Adds a line to a file: `lived` with the budget's count of purges, or `killed`.
once() { # PRELOAD SETTINGS FILE COMMAND...
    local code=0 preload=$1 settings=$2 file=$3
    shift 3
    rm -f "$out/proof"
    { sh -c 'echo $$ >"$0/cgroup.procs" && exec env "$@"' "$folder" LD_PRELOAD="$preloads/preload-$preload" \
        ALLOCANARY_PRELOAD="$settings" ALLOCANARY_PROOF="$out/proof" "$@" </dev/null >/dev/null 2>"$out/errors"; } 2>/dev/null || code=$?
    case $code in
        0) echo "lived $(tail -n 1 "$out/proof" | { grep -o '"purges":[0-9]*' || true; } | tr -dc '0-9')" >>"$file" ;;
        137) echo killed >>"$file" ;;
        *) echo "$preload $settings: $*: exit code $code" >&2; cat "$out/errors" >&2; exit 1 ;;
    esac
}
mib() { awk '{ printf "%.0f", $1 / 1048576 }'; }
median() { sort -n | awk '{ all[NR] = $1 } END { if (NR) print all[int((NR + 1) / 2)]; else print "-" }'; }

echo "| program | preload | limit, MiB | live | peak, no limit | killed without | killed with | purges |"
echo "|---|---|--:|--:|--:|--:|--:|--:|"
for row in "${rows[@]}"; do
    IFS='|' read -r name preload limit command <<<"$row"
    [[ "$name $preload" == *$only* ]] || continue
    read -r preload setting <<<"$preload"
    read -ra words <<<"$command"
    rm -rf "$out/traces" "$out"/*.runs
    "$preloads/allocanary" record --stack-sample off -o "$out/traces" -- "${words[@]}" </dev/null >/dev/null 2>"$out/errors" ||
        { cat "$out/errors" >&2; exit 1; }
    live=$(for trace in "$out"/traces/*.trace; do "$preloads/allocanary" report "$trace"; done |
        awk '$1 == "live" { mib = $3 == "MiB" ? $2 : $3 == "GiB" ? $2 * 1024 : 0; if (mib > most) most = mib } END { printf "%.0f", most }')
    limited max
    peak=$(LD_PRELOAD="$preloads/preload-$preload" ALLOCANARY_PRELOAD="$setting" "$python" -c 'import os, sys
to_nothing = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1)]
child = os.posix_spawn(sys.argv[1], sys.argv[1:], {**os.environ}, file_actions=to_nothing)
print(os.wait4(child, 0)[2].ru_maxrss * 1024)' "$(command -v "${words[0]}")" "${words[@]:1}" | mib)
    limited $((limit << 20))
    for _ in $(seq "$repeats"); do
        once "$preload" "$setting" "$out/without.runs" "${words[@]}"
        once "$preload" "memory_budget=container${setting:+,$setting}" "$out/with.runs" "${words[@]}"
    done
    echo "| $name | $preload${setting:+, \`$setting\`} | $limit | $live | $peak |" \
        "$(grep -c killed "$out/without.runs" || true) of $repeats | $(grep -c killed "$out/with.runs" || true) of $repeats |" \
        "$(grep lived "$out/with.runs" | cut -d' ' -f2 | median) |"
done
