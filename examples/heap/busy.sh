#!/usr/bin/env bash
# Busy programs: compares the live bytes that `allocanary heap` shows with those that the program had at the moment of the copy, by its own
# count. The program has 16 threads, which do nothing but allocate and free.
# Usage: examples/heap/busy.sh [FOLDER of allocanary and its preloads [NAME=LIBRARY...]]. Needs jq and a C compiler. Without libraries:
# Debian's jemalloc and mimalloc, and the preloads of both. READINGS=20, THREADS=16, MEBIBYTES=100 and CASES="churn saw pass" can be set.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs cc jq
locate "${1:-}"
[ $# = 0 ] || shift
libraries=("$@")
cc -O1 -pthread -o "$work/busy" "$here/busy.c"
if [ ${#libraries[@]} = 0 ]; then
    for library in libjemalloc.so.2 libmimalloc.so.2.0; do
        path=$(find /usr/lib -name "$library" 2>/dev/null | head -1)
        if [ -n "$path" ]; then libraries+=("$library of Debian=$path"); else echo "left out: $library is not installed" >&2; fi
    done
    libraries+=("preload-jemalloc=$bin/preload-jemalloc" "preload-mimalloc=$bin/preload-mimalloc")
fi

# Of all heaps: live bytes, how they are known, and of a copy: when, how long (us), and within how many bytes.
sums() {
    reading "$pid" | jq -r '
        (.undivided // [] | length) as $undivided | ([.heaps[] | .copied // empty] | first) as $copy |
        [([.heaps[] | .allocated_bytes] | add // 0),
         (if $undivided > 0 or any(.heaps[]; .sure == "not_known") then "not_known" elif $copy then "copied" else "walked" end),
         ($copy.taken_timestamp_seconds // 0), ($copy.copy_seconds // 0) * 1000000, ($copy.within_bytes // 0)] | map(tostring) | join(" ")'
}

echo '| allocator | program | copied, walked, not known | copy, us: median | most | off: median | most | said, ±: median | most | holds |'
echo '|---|---|--:|--:|--:|--:|--:|--:|--:|--:|'
for library in "${libraries[@]}"; do
    for case in ${CASES:-churn saw pass}; do
        converse env LD_PRELOAD="${library#*=}" "$work/busy" "$case" "${THREADS:-16}" "${MEBIBYTES:-100}" ||
            { echo "left out: ${library%%=*} did not start" >&2; continue; }
        # What the C library itself has, and the threads' first blocks, are not in the program's count.
        read -r own _ <<<"$(sums)"
        lines=()
        for ((time = 0; time < ${READINGS:-20}; time++)); do
            ask busy
            sleep 0.3
            read -r found how taken took within <<<"$(sums)"
            ask still
            # A copy counts for the moment at which it ended.
            [ "$how" != copied ] || ask "at $(awk -v at="$taken" -v us="$took" 'BEGIN { printf "%.6f", at + us / 1e6 }')"
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
        exec 8>&- 9<&-
        end "$pid"
    done
done
