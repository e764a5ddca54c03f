#!/bin/bash
# The table of docs/heap.md of busy programs. It compares the live bytes that `allocanary heap` shows with those that the program had at the
# moment of the copy, by its own count. The program has 16 threads, which do nothing but allocate and free.
# Usage: examples/heap/busy.sh [FOLDER of allocanary and its preloads [NAME=LIBRARY...]]. Needs jq and a C compiler. Without libraries:
# Debian's jemalloc and mimalloc, and the preloads of both. READINGS=20, THREADS=16, MEBIBYTES=100 and CASES="churn saw pass" can be set.
set -u
built=${1:-target/release}
[ $# -gt 0 ] && shift
libraries=("$@")
cd "$(dirname "$0")/../.." || exit 2
built=$(realpath "$built")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -O1 -pthread -o "$folder/busy" examples/heap/busy.c || exit 2
if [ ${#libraries[@]} -eq 0 ]; then
    for library in libjemalloc.so.2 libmimalloc.so.2.0; do
        path=$(ls /usr/lib/*/$library 2>/dev/null | head -1)
        if [ -n "$path" ]; then libraries+=("$library of Debian=$path"); else echo "left out: $library is not installed" >&2; fi
    done
    libraries+=("preload-jemalloc=$built/preload-jemalloc" "preload-mimalloc=$built/preload-mimalloc")
fi

ask() { echo "$1" >&"${busy[1]}"; read -r answer <&"${busy[0]}"; }
# Of all heaps: live bytes, how they are known, and of a copy: when, how long (us), and within how many bytes.
reading() {
    "$built/allocanary" heap "$pid" --json 2>/dev/null | jq -r '
        (.undivided // [] | length) as $undivided | ([.heaps[] | .copied // empty] | first) as $copy |
        [([.heaps[] | .allocated_bytes] | add // 0),
         (if $undivided > 0 or any(.heaps[]; .sure == "not_known") then "not_known" elif $copy then "copied" else "walked" end),
         ($copy.taken_timestamp_seconds // 0), ($copy.copy_seconds // 0) * 1000000, ($copy.within_bytes // 0)] | map(tostring) | join(" ")'
}

echo '| allocator | program | copied, walked, not known | two copies, us: median | most | off: median | most | said, ±: median | most | holds |'
echo '|---|---|--:|--:|--:|--:|--:|--:|--:|--:|'
for library in "${libraries[@]}"; do
    for case in ${CASES:-churn saw pass}; do
        coproc busy { LD_PRELOAD=${library#*=} exec "$folder/busy" "$case" "${THREADS:-16}" "${MEBIBYTES:-100}"; }
        pid=$busy_PID
        read -r answer <&"${busy[0]}" || { echo "left out: ${library%%=*} did not start" >&2; continue; }
        # What the C library itself has, and the threads' first blocks, are not in the program's count.
        read -r own _ <<<"$(reading)"
        lines=()
        for ((time = 0; time < ${READINGS:-20}; time++)); do
            ask busy
            sleep 0.3
            read -r found how taken took within <<<"$(reading)"
            ask still
            [ "$how" = copied ] && ask "at $(awk -v at="$taken" -v us="$took" 'BEGIN { printf "%.6f", at + us / 2e6 }')"
            lines+=("$how $((found - own)) ${answer#live=} $took $within")
        done
        printf '%s\n' "${lines[@]}" | awk -v name="${library%%=*}" -v program="$case" '
            function sorted(values, count,    i, j, one) {
                for (i = 2; i <= count; i++) for (j = i; j > 1 && values[j - 1] > values[j]; j--) { one = values[j]; values[j] = values[j - 1]; values[j - 1] = one }
            }
            $1 != "copied" { others[$1]++; next }
            $3 == "lost" { lost++; next }
            {
                by = $2 - $3; by = by < 0 ? -by : by
                off[++count] = by / $3 * 100; said[count] = $5 / $3 * 100; took[count] = $4; holds += by <= $5
            }
            END {
                copied = count + lost
                sorted(off, count); sorted(said, count); sorted(took, count); middle = int((count + 1) / 2)
                printf "| %s | %s | %d, %d, %d | %d | %d | %.2f %% | %.2f %% | %.2f %% | %.2f %% | %d of %d |\n", name, program, copied,
                    others["walked"], others["not_known"], took[middle], took[count], off[middle], off[count], said[middle], said[count], holds, count
            }'
        exec {busy[1]}>&-
        wait "$pid" 2>/dev/null
    done
done
