#!/usr/bin/env bash
# Programs whose live memory fits the limit of their control group, and whose kept memory does not. Counts how many runs the kernel
# killed, without a budget and with one. Needs root, for the control group (v1 or v2), cc, c++, rustc, python3 and java. Prints a Markdown
# table.
#
#   examples/budget/evidence.sh [REPEATS] [PART of a row's name]
#
# PRELOADS is a folder that has the preloads and the command; without it they are built. `live` is the most bytes that the program held at
# the same time. The recorder counts them, without the JVM's own memory and without Python's small objects; shapes.c counts its own, with both
# blocks of a `realloc`. `peak` is the highest resident memory of one run without a limit.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
# shellcheck source=group.sh
. "$here/group.sh"
needs cc c++ rustc python3 java javac
[ -n "${PRELOADS:-}" ] || build
locate "${PRELOADS:-}"
repeats=${1:-20}
only=${2:-}
cc -O2 -pthread -o "$work/bursts" "$here/bursts.c"
cc -O2 -pthread -o "$work/cache" "$here/cache.c"
cc -O2 -pthread -o "$work/shapes" "$here/shapes.c"
c++ -std=c++17 -O2 -pthread -o "$work/documents" "$here/documents.cpp"
rustc --edition 2021 -O -o "$work/tables" "$here/tables.rs"
javac -d "$work" "$here/Compressors.java"
python=$(python3 -c 'import sys; print(sys.executable)')
java=$(realpath "$(command -v java)")

# Columns: name; preload, and a setting of both runs; limit in MiB; command.
rows=(
    "C, bursts in 16 threads|jemalloc|104|$work/bursts 64 4 2"
    "C, bursts in 16 threads|mimalloc|104|$work/bursts 64 4 2"
    "C, bursts in 16 threads|system|104|$work/bursts 64 4 2"
    "C, bursts in 16 threads|system trim_threshold=131072|104|$work/bursts 64 4 2"
    "C, a cache built anew|jemalloc|96|$work/cache 32 12 8"
    "C++, an index of documents|jemalloc|44|$work/documents"
    "C, sessions|jemalloc|110|$work/shapes sessions 8"
    "C, sessions|mimalloc|110|$work/shapes sessions 8"
    "C, sessions|system|110|$work/shapes sessions 8"
    "C, handoff|jemalloc|110|$work/shapes handoff 8"
    "C, handoff|mimalloc|110|$work/shapes handoff 8"
    "C, handoff|system|110|$work/shapes handoff 8"
    "C, phases|jemalloc|110|$work/shapes phases 8"
    "C, phases|mimalloc|110|$work/shapes phases 8"
    "C, phases|mimalloc allow_thp=0|110|$work/shapes phases 8"
    "C, phases|system|110|$work/shapes phases 8"
    "Rust, tables|system|96|$work/tables 50000 10 8"
    "python3, answers of growing size|system|112|$python $here/blobs.py"
    "java, compressors|system|176|$java -Xmx24m -Xshare:auto -XX:TieredStopAtLevel=1 -cp $work Compressors"
)

# Runs a program in the group, in a separate shell. Adds a line to a file: `lived` with the budget's count of purges, or `killed`.
once() { # PRELOAD SETTINGS FILE COMMAND...
    local code=0 preload=$1 settings=$2 file=$3
    shift 3
    rm -f "$work/proof"
    { sh -c 'echo $$ >"$0/cgroup.procs" && exec env "$@"' "$folder" LD_PRELOAD="$bin/preload-$preload" \
        ALLOCANARY_PRELOAD="$settings" ALLOCANARY_PROOF="$work/proof" "$@" </dev/null >/dev/null 2>"$work/errors"; } 2>/dev/null || code=$?
    case $code in
        0) echo "lived $(tail -n 1 "$work/proof" | { grep -o '"purges":[0-9]*' || true; } | tr -dc '0-9')" >>"$file" ;;
        137) echo killed >>"$file" ;;
        *) echo "$preload $settings: $*: exit code $code" >&2; cat "$work/errors" >&2; exit 1 ;;
    esac
}

echo "| program | preload | limit, MiB | live | peak, no limit | killed without | killed with | purges |"
echo "|---|---|--:|--:|--:|--:|--:|--:|"
for row in "${rows[@]}"; do
    IFS='|' read -r name preload limit command <<<"$row"
    [[ "$name $preload" == *$only* ]] || continue
    read -r preload setting <<<"$preload"
    read -ra words <<<"$command"
    rm -rf "$work/traces" "$work"/*.runs
    if [ "${words[0]}" = "$work/shapes" ]; then
        live=$(mib "$("${words[@]}" | grep -o 'live=[0-9]*' | tr -dc '0-9')" 0)
    else
        "$allocanary" record --stack-sample off -o "$work/traces" -- "${words[@]}" </dev/null >/dev/null 2>"$work/errors" ||
            { cat "$work/errors" >&2; exit 1; }
        live=$(for trace in "$work"/traces/*.trace; do "$allocanary" report "$trace"; done |
            awk '$1 == "live" { mib = $3 == "MiB" ? $2 : $3 == "GiB" ? $2 * 1024 : 0; if (mib > most) most = mib } END { printf "%.0f", most }')
    fi
    limited max
    peak=$(mib "$(LD_PRELOAD="$bin/preload-$preload" ALLOCANARY_PRELOAD="$setting" "$python" -c 'import os, sys
to_nothing = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1)]
child = os.posix_spawn(sys.argv[1], sys.argv[1:], {**os.environ}, file_actions=to_nothing)
print(os.wait4(child, 0)[2].ru_maxrss * 1024)' "$(command -v "${words[0]}")" "${words[@]:1}")" 0)
    limited $((limit << 20))
    for _ in $(seq "$repeats"); do
        once "$preload" "$setting" "$work/without.runs" "${words[@]}"
        once "$preload" "memory_budget=container${setting:+,$setting}" "$work/with.runs" "${words[@]}"
    done
    echo "| $name | $preload${setting:+, \`$setting\`} | $limit | $live | $peak |" \
        "$(grep -c killed "$work/without.runs" || true) of $repeats | $(grep -c killed "$work/with.runs" || true) of $repeats |" \
        "$(grep lived "$work/with.runs" | cut -d' ' -f2 | median) |"
done
