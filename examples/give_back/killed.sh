#!/bin/bash
# Whether a program notices calls whose callers are killed, or calls that end well: two tables of docs/give-back.md. The program compares
# all registers, the mask, errno and the red zone after each of its waits, while two threads allocate.
# Usage: examples/give_back/killed.sh [CALLERS of each wait] [CALLS of each wait]. Needs cc.
set -u
cd "$(dirname "$0")/../.." || exit 2
cargo build --release --locked --quiet -p allocanary-inside --examples || exit 2
examples=$PWD/target/release/examples
callers=${1:-120}
calls=${2:-560}
folder=$(mktemp -d)
children=()
end() { for child in "${children[@]}"; do kill "$child" 2>/dev/null; done; wait 2>/dev/null; rm -rf "$folder"; }
trap end EXIT
cc -O1 -pthread -o "$folder/checks" crates/inside/tests/programs/checks.c || exit 2

number() { grep -o "$1=[0-9]*" <<<"$found $noticed" | cut -d= -f2; }

row() { # EXAMPLE COUNT WAIT
    rm -f "$folder/line"
    mkfifo "$folder/line"
    exec 7<>"$folder/line"
    "$folder/checks" "$3" storm <&7 >"$folder/out" &
    children+=($!)
    sleep 1
    found=$("$examples/$1" glibc $! "$2" "$3" 2>>"$folder/errors")
    echo >&7
    sleep 1
    noticed=$(tail -1 "$folder/out")
    if [ "$1" = killed ]; then
        [ "$(number lives)" = 1 ] && alive=yes || alive='**no**'
        echo -n "| $3 | $(number callers) | $(number killed) | $(number made) | $(number refused) | $alive | "
    else
        echo -n "$found "
    fi
    echo "$(number rounds) | $(number changed) | $(number ended) | $(number early) |"
    kill $!
}

waits='poll ppoll select epoll_wait nanosleep nanosleep_rest clock_nanosleep read recvfrom'
echo '| wait | callers | killed | made before | refused | alive | waits | changed | ended with EINTR | too early |'
echo '|---|--:|--:|--:|--:|---|--:|--:|--:|--:|'
for wait in $waits; do row killed "$callers" $wait; done
echo
echo '| wait | calls | made | no thread to borrow | refused otherwise | median, us | longest, us | runs on | waits | changed | ended with EINTR | too early |'
echo '|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|'
for wait in $waits; do row storm "$calls" $wait; done
touch "$folder/errors"
sort "$folder/errors" | uniq -c >&2
