#!/bin/bash
# What `allocanary heap --all` costs among many processes of few programs: processor time for each process after the first of its program, and
# the memory of the command and its children together, at their peaks.
# Usage: examples/heap/many.sh [FOLDER of allocanary] [PROCESSES of each program...], as root: a namespace of its own keeps other processes out.
# Programs that are not installed are left out.
set -u
if [ -z "${ALONE:-}" ]; then
    ALONE=1 exec unshare --pid --fork --mount-proc "$0" "$@"
fi
built=$(realpath "${1:-target/release}")
shift
[ $# -gt 0 ] || set -- 10 100
folder=$(mktemp -d)
# The processes end with the namespace.
trap 'rm -rf "$folder"' EXIT
mkfifo "$folder/nothing"
# A process that reads from it waits.
exec 3<>"$folder/nothing"

programs=("sleep 1000" "cat" "sort" "tail -f" "dash" "bash" "sed p" "python3 -c input()" "perl -e <>" "sqlite3 -batch")
present=()
for program in "${programs[@]}"; do
    command -v "${program%% *}" >/dev/null && present+=("$program")
done

# Starts processes of each program until there are as many as requested.
started=0
start() {
    for (( ; started < $1; started++)); do
        for program in "${present[@]}"; do
            $program <&3 >/dev/null 2>&1 3<&- &
            disown
        done
    done
    # Waits until the last of them waits.
    sleep 3
}

# Processor time in milliseconds of one reading of all processes, with the children; the median of five.
reading() {
    for _ in 1 2 3 4 5; do
        TIMEFORMAT='%U %S'
        { time "$built/allocanary" heap --all >"$folder/lines" 2>/dev/null; } 2>&1 | awk '{ printf "%.0f\n", ($1 + $2) * 1000 }'
    done | sort -n | sed -n 3p
}

# The sum of the peaks of the command and its children, in MiB.
memory() {
    "$built/allocanary" heap --all >/dev/null 2>&1 &
    local command=$! most=0
    while kill -0 $command 2>/dev/null; do
        sum=$(cat "/proc/$command/status" $(pgrep -P $command | sed 's|.*|/proc/&/status|') 2>/dev/null | awk '/^VmHWM:/ { sum += $2 } END { print int(sum / 1024) }')
        [ "${sum:-0}" -gt $most ] && most=$sum
    done
    wait $command
    echo $most
}

start 1
first=$(reading)
echo "| processes | programs | lines | CPU ms in all | CPU ms for each after the first of its program | MiB of the command and its children |"
echo "|--:|--:|--:|--:|--:|--:|"
for count in "$@"; do
    start "$count"
    all=$(reading)
    others=$(((started - 1) * ${#present[@]}))
    each=$(awk -v all="$all" -v first="$first" -v others=$others 'BEGIN { printf "%.2f", (all - first) / (others > 0 ? others : 1) }')
    echo "| $((started * ${#present[@]})) | ${#present[@]} | $(grep -cE '^  [^ ].* [0-9]+ ' "$folder/lines") | $all | $each | $(memory) |"
done
