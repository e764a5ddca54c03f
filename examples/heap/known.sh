#!/bin/bash
# The table of docs/heap.md of programs that know their live blocks: under each allocator, still and busy, `allocanary heap` against what
# the program counts; and what a trim or a purge was forecast to give back against what it gave.
# Usage: examples/heap/known.sh [FOLDER of allocanary and its preloads [LIBRARY...]]. Needs jq and a C compiler.
# Without libraries: the C library's, Debian's jemalloc, and the preloads. With them: these, such as what `allocanary build` has made, or
# those of another release's package.
set -u
built=${1:-target/release}
[ $# -gt 0 ] && shift
libraries=()
for library in "$@"; do libraries+=("$(realpath "$library")") || exit 2; done
cd "$(dirname "$0")/../.." || exit 2
built=$(realpath "$built")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -O1 -pthread -o "$folder/known" examples/heap/known.c -ldl || exit 2

# One reading: `live blocks sure forecast`.
reading() {
    "$built/allocanary" heap "$pid" --json 2>/dev/null | jq -r '
        [([.heaps[] | .live] | add // 0), ([.heaps[] | .blocks] | add // 0),
         ([.heaps[] | .sure] | if any(. == "not_known") then "not known" elif any(. == "close") then "close" else "exact" end
          | gsub(" "; "_")),
         ([.heaps[].remedies[0].bytes] | add // 0)] | map(tostring) | join(" ")'
}
ask() { echo "$1" >&"${known[1]}"; read -r answer <&"${known[0]}"; }
mib() { [ "$1" = none ] && echo '' || awk -v bytes="$1" 'BEGIN { printf "%.1f", bytes / 1048576 }'; }

echo '| allocator | program | its live bytes | ours, still | blocks | ours, busy: median of 5 | worst | not known | forecast MiB | given MiB |'
echo '|---|---|--:|--:|--:|--:|--:|--:|--:|--:|'
allocators=(glibc "jemalloc 5.3.0 of Debian" jemalloc mimalloc)
[ ${#libraries[@]} -gt 0 ] && allocators=("${libraries[@]}")
for allocator in "${allocators[@]}"; do
    case $allocator in
    /*)
        preload=$allocator
        allocator=$(basename "$(dirname "$preload")")/$(basename "$preload")
        ;;
    glibc) preload= ;;
    *Debian) preload=$(ls /usr/lib/*/libjemalloc.so.2 2>/dev/null | head -1) ;;
    *) preload=$built/preload-$allocator ;;
    esac
    if [ "$allocator" != glibc ] && [ ! -e "$preload" ]; then
        echo "left out: $allocator is not installed" >&2
        continue
    fi
    for case in one half threads mmaps blocked; do
        coproc known { LD_PRELOAD=$preload exec "$folder/known" $case; }
        pid=$known_PID
        read -r answer <&"${known[0]}"
        # What the C library itself holds, and each thread's first blocks, are not the program's.
        read -r own own_blocks _ <<<"$(reading)"
        ask build
        live=${answer#live=}
        blocks=${live#*blocks=}
        live=${live% *}
        read -r found found_blocks sure forecast <<<"$(reading)"
        off=$((found - own - live))
        off_blocks=$((found_blocks - own_blocks - blocks))
        ask busy
        values=() unknown=0
        for _ in 1 2 3 4 5; do
            read -r during _ how _ <<<"$(reading)"
            if [ "$how" = not_known ]; then unknown=$((unknown + 1)); else values+=("$((during - own))"); fi
        done
        ask still
        percents=$(printf '%s\n' "${values[@]}" | awk -v live="$live" 'NF { printf "%.2f\n", ($1 - live) / live * 100 }')
        median=$(echo "$percents" | sort -g | awk '{ all[NR] = $1 } END { print NR ? all[int((NR + 1) / 2)] " %" : "" }')
        worst=$(echo "$percents" | awk '{ at = $1 < 0 ? -$1 : $1; if (at >= most + 0) { most = at; value = $1 } } END { print value == "" ? "" : value " %" }')
        read -r _ _ _ forecast <<<"$(reading)"
        ask give
        echo "| $allocator | $case | $live | $([ $off -ge 0 ] && echo +)$off ($sure) | $([ $off_blocks -ge 0 ] && echo +)$off_blocks | $median | $worst | $unknown of 5 | $(mib "$forecast") | $(mib "${answer#given=}") |"
        exec {known[1]}>&-
        wait "$pid" 2>/dev/null
    done
done
