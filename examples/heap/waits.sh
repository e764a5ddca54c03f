#!/bin/bash
# How long a process waits for `mmap` while it is read. The process has some MiB, in one mapping and in 10,000. The longest wait is
# measured with no reader, under `heap`, `doctor` and `heap --all`, and while its smaps is read, alternating. Prints the median of the
# rounds' longest waits, in ms, and how much longer that is than with no reader.
# Usage: examples/heap/waits.sh [PATH OF allocanary] [MIB] [ROUNDS]. Needs a C compiler.
set -u
command=$(realpath "${1:-target/release/allocanary}")
mib=${2:-4096}
rounds=${3:-9}
cd "$(dirname "$0")/../.." || exit 2
folder=$(mktemp -d)
cc -O1 -pthread -o "$folder/waits" measured/programs/waits.c || exit 2
pid=
end() { [ -z "$pid" ] || kill "$pid" 2>/dev/null; }
trap 'end; rm -rf "$folder"' EXIT
longest() { echo >&"${waits[1]}"; read -r answer <&"${waits[0]}"; }
reader() {
    case $1 in
    nobody) sleep 0.5 ;;
    heap | doctor) "$command" "$1" "$pid" ;;
    --all) "$command" heap --all ;;
    smaps) cat "/proc/$pid/smaps" ;;
    esac >/dev/null 2>&1
}
readers="nobody heap doctor --all smaps"
echo '| mappings | reader | longest mmap, ms: median of the rounds | least | most | above nobody |'
echo '|--:|---|--:|--:|--:|--:|'
for mappings in 1 10000; do
    coproc waits { exec "$folder/waits" "$mappings" "$mib"; }
    pid=$waits_PID
    read -r answer <&"${waits[0]}"
    for _ in $(seq "$rounds"); do
        for reader in $readers; do
            longest
            reader "$reader"
            longest
            echo "$reader $answer"
        done
    done >"$folder/all"
    for reader in $readers; do
        grep "^$reader " "$folder/all" | awk '{ print $2 / 1e6 }' | sort -g |
            awk -v reader="$reader" -v mappings="$mappings" -v file="$folder/nobody" '
                { all[NR] = $1 }
                END {
                    median = all[int((NR + 1) / 2)]
                    if (reader == "nobody") { print median >file; close(file) }
                    getline nobody <file
                    printf "| %d | %s | %.1f | %.1f | %.1f | %.1f |\n", mappings, reader, median, all[1], all[NR], median - nobody
                }'
    done
    end
    wait "$pid" 2>/dev/null
    pid=
done
