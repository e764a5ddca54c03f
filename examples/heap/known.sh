#!/bin/bash
# The table of docs/lab/heap.md of programs that know their live blocks. It compares `allocanary heap` with the program's own count under each
# allocator, while the program does nothing and while it is busy. It also compares the forecast of a trim or a purge with what it gave.
# Usage: examples/heap/known.sh [FOLDER of allocanary and its preloads [FILE...]]. Needs jq and a C compiler.
# Without files: the C library's, Debian's jemalloc, the preloads, and musl's if there is musl-gcc. With them: these. A FILE is a library to preload, such as what
# `allocanary build` has made, or known.c as a program that has its allocator already. The row has the file's name and its folder's, or NAME
# if it is given as NAME=FILE. examples/heap/releases.sh gets many. With STILL=1 the programs are read only while they do nothing, which takes
# much less time, and each file has one row: the largest differences of the six programs. Exits with 1 if a row is not exact.
set -u
. "$(dirname "$0")/../lib.sh"
needs jq cc
locate "${1:-}"
[ $# -gt 0 ] && shift
files=()
for file in "$@"; do
    path=$(realpath -s "${file##*=}") && [ -e "$path" ] || fail "$file: wanted a file, found none"
    [[ $file == *=* ]] && name=${file%%=*} || name=$(basename "$(dirname "$path")")/$(basename "$path")
    files+=("$name=$path")
done
cc -O1 -pthread -o "$work/known" "$here/known.c" -ldl || exit 2

# One reading: `live blocks sure forecast`.
counts() {
    reading "$pid" | jq -r '
        (.undivided // [] | length) as $undivided | [([.heaps[] | .allocated_bytes] | add // 0), ([.heaps[] | .blocks] | add // 0),
         ([.heaps[] | .sure] | if any(. == "not_known") or $undivided > 0 then "not known" elif any(. == "close") then "close" else "exact" end
          | gsub(" "; "_")),
         ([.heaps[].remedies[0].reclaimable_bytes] | add // 0)] | map(tostring) | join(" ")'
}
given() { [ "$1" = none ] || mib "$1"; }

if [ "${STILL:-}" = 1 ]; then
    echo '| allocator | programs | exact | bytes off, at most | blocks off, at most | forecast MiB, sum | given MiB, sum |'
    echo '|---|--:|--:|--:|--:|--:|--:|'
else
    echo '| allocator | program | its live bytes | ours, still | blocks | ours, busy: median of 5 | worst | not known | forecast MiB | given MiB |'
    echo '|---|---|--:|--:|--:|--:|--:|--:|--:|--:|'
fi
wrong=0
allocators=(glibc "jemalloc 5.3.0 of Debian" jemalloc mimalloc)
if musl-gcc -O1 -pthread -o "$work/musl" "$here/known.c" 2>/dev/null; then allocators+=("musl=$work/musl"); fi
[ ${#files[@]} -gt 0 ] && allocators=("${files[@]}")
for allocator in "${allocators[@]}"; do
    program=$work/known
    case $allocator in
    *=*.so*)
        preload=${allocator#*=}
        allocator=${allocator%%=*}
        ;;
    *=*)
        preload=
        program=${allocator#*=}
        allocator=${allocator%%=*}
        ;;
    *) preload=$(preload_of "$allocator") || continue ;;
    esac
    count=0 exact=0 most=0 most_blocks=0 forecasts=0 gifts=
    for case in one half threads mmaps blocked large; do
        converse env LD_PRELOAD="$preload" "$program" $case
        if [ "$answer" != ready ]; then
            echo "left out: $allocator did not start" >&2
            wrong=$((wrong + 1))
            wait "$pid" 2>/dev/null
            continue 2
        fi
        # What the C library itself holds, and each thread's first blocks, do not belong to the program's count.
        read -r own own_blocks _ <<<"$(counts)"
        ask build
        live=${answer#live=}
        blocks=${live#*blocks=}
        live=${live% *}
        read -r found found_blocks sure forecast <<<"$(counts)"
        off=$((found - own - live))
        off_blocks=$((found_blocks - own_blocks - blocks))
        values=() unknown=0 times=5
        # One of its blocks that is being replaced is a fifth of them all.
        [ "${STILL:-}" = 1 ] || [ $case = large ] && times=0
        [ $times -gt 0 ] && ask busy
        for ((time = 0; time < times; time++)); do
            read -r during _ how _ <<<"$(counts)"
            if [ "$how" = not_known ]; then unknown=$((unknown + 1)); else values+=("$((during - own))"); fi
        done
        [ $times -gt 0 ] && ask still
        percents=$(printf '%s\n' "${values[@]}" | awk -v live="$live" 'NF { printf "%.2f\n", ($1 - live) / live * 100 }')
        median=$([ -z "$percents" ] || echo "$(median <<<"$percents") %")
        worst=$(echo "$percents" | awk '{ at = $1 < 0 ? -$1 : $1; if (at >= most + 0) { most = at; value = $1 } } END { print value == "" ? "" : value " %" }')
        [ $times -gt 0 ] && read -r _ _ _ forecast <<<"$(counts)"
        ask give
        if [ "$off $off_blocks $sure" = "0 0 exact" ]; then exact=$((exact + 1)); else wrong=$((wrong + 1)); fi
        count=$((count + 1)) forecasts=$((forecasts + forecast))
        [ ${off#-} -gt $most ] && most=${off#-}
        [ ${off_blocks#-} -gt $most_blocks ] && most_blocks=${off_blocks#-}
        [ "${answer#given=}" != none ] && gifts=$((gifts + ${answer#given=}))
        unknowns=$([ $times -gt 0 ] && echo "$unknown of $times")
        [ "${STILL:-}" != 1 ] && echo "| $allocator | $case | $live | $([ $off -ge 0 ] && echo +)$off ($sure) | $([ $off_blocks -ge 0 ] && echo +)$off_blocks | $median | $worst | $unknowns | $(mib "$forecast") | $(given "${answer#given=}") |"
        end "$pid"
    done
    [ "${STILL:-}" = 1 ] && echo "| $allocator | $count | $exact | $most | $most_blocks | $(mib $forecasts) | $(given "${gifts:-none}") |"
done
# This check fails if a release has a changed layout.
[ $wrong -eq 0 ] || { echo "$wrong rows are not exact" >&2; exit 1; }
