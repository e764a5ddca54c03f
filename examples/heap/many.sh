#!/bin/bash
# What `allocanary heap --all` costs among many processes of few programs: processor time for each process after the first of its program, and
# the memory of the command and its children together, at their peaks.
# Usage: examples/heap/many.sh [FOLDER of allocanary] [PROCESSES of each program...], as root: a namespace of its own keeps other processes out.
# Programs that are not installed are left out.
set -u
if [ -z "${ALONE:-}" ] && [ "$(id -u)" = 0 ]; then
    ALONE=1 exec unshare --pid --fork --mount-proc "$0" "$@"
fi
. "$(dirname "$0")/../lib.sh"
needs_root "a namespace of its own"
needs pgrep
locate "${1:-}"
[ $# = 0 ] || shift
[ $# -gt 0 ] || set -- 10 100
mkfifo "$work/nothing"
# A process that reads from it waits.
exec 3<>"$work/nothing"

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
            # It ends with the namespace.
            disown
        done
    done
    # Waits until the last of them waits.
    sleep 3
}

read_all() { "$allocanary" heap --all >"$work/lines" || true; }
# Processor time in milliseconds of one reading of all processes, with the children; the median of five.
time_of_all() { for _ in 1 2 3 4 5; do cpu_ms read_all; done | median; }

# The sum of the peaks of the command and its children, in MiB.
memory() {
    "$allocanary" heap --all >/dev/null 2>&1 &
    local command=$! most=0
    while kill -0 $command 2>/dev/null; do
        sum=$(cat "/proc/$command/status" $(pgrep -P $command | sed 's|.*|/proc/&/status|') 2>/dev/null | awk '/^VmHWM:/ { sum += $2 } END { print int(sum / 1024) }')
        [ "${sum:-0}" -gt $most ] && most=$sum
    done
    wait $command
    echo $most
}

start 1
first=$(time_of_all)
echo "| processes | programs | lines | CPU ms in all | CPU ms for each after the first of its program | MiB of the command and its children |"
echo "|--:|--:|--:|--:|--:|--:|"
for count in "$@"; do
    start "$count"
    all=$(time_of_all)
    others=$(((started - 1) * ${#present[@]}))
    each=$(awk -v all="$all" -v first="$first" -v others=$others 'BEGIN { printf "%.2f", (all - first) / (others > 0 ? others : 1) }')
    echo "| $((started * ${#present[@]})) | ${#present[@]} | $(grep -cE '^  [^ ].* [0-9]+ ' "$work/lines") | $all | $each | $(memory) |"
done
