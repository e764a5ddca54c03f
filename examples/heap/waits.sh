#!/bin/bash
# How long a process waits for `mmap` while it is read. The process has some MiB, in one mapping and in 10,000. The longest wait is
# measured with no reader, under `heap`, `doctor` and `heap --all`, and while its smaps is read, alternating. Prints the median of the
# rounds' longest waits, in ms, and how much longer that is than with no reader.
# Usage: examples/heap/waits.sh [PATH OF allocanary] [MIB] [ROUNDS]. Needs a C compiler.
set -u
. "$(dirname "$0")/../lib.sh"
needs cc
locate "${1:-}"
mib=${2:-4096}
rounds=${3:-9}
cc -O1 -pthread -o "$work/waits" "$root/measured/programs/waits.c" || exit 2
reader() {
    case $1 in
    nobody) sleep 0.5 ;;
    heap | doctor) "$allocanary" "$1" "$pid" ;;
    --all) "$allocanary" heap --all ;;
    smaps) cat "/proc/$pid/smaps" ;;
    esac >/dev/null 2>&1
}
readers="nobody heap doctor --all smaps"
echo '| mappings | reader | longest mmap, ms: median of the rounds | least | most | above nobody |'
echo '|--:|---|--:|--:|--:|--:|'
for mappings in 1 10000; do
    converse "$work/waits" "$mappings" "$mib"
    for _ in $(seq "$rounds"); do
        for reader in $readers; do
            ask ""
            reader "$reader"
            ask ""
            echo "$reader $answer"
        done
    done >"$work/all"
    for reader in $readers; do
        read -r median least most < <(awk -v reader="$reader" '$1 == reader { print $2 / 1e6 }' "$work/all" | spread)
        [ "$reader" = nobody ] && nobody=$median
        awk -v median="$median" -v least="$least" -v most="$most" -v nobody="$nobody" -v row="| $mappings | $reader" '
            BEGIN { printf "%s | %.1f | %.1f | %.1f | %.1f |\n", row, median, least, most, median - nobody }'
    done
    end "$pid"
done
