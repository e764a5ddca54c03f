#!/bin/bash
# Whether a program notices calls whose callers are killed, or calls that end well: two tables of docs/lab/give-back.md. The program compares
# all registers, the mask, errno and the red zone after each of its waits, while two threads allocate.
# Usage: examples/give_back/killed.sh [CALLERS of each wait] [CALLS of each wait]. Needs cc.
set -u
. "$(dirname "$0")/../lib.sh"
needs cc
build --example killed --example storm
examples=$root/target/release/examples
callers=${1:-120}
calls=${2:-560}
cc -O1 -pthread -o "$work/checks" "$root"/crates/inside/tests/programs/checks.c || exit 2

number() { grep -o "$1=[0-9]*" <<<"$found $noticed" | cut -d= -f2; }

row() { # EXAMPLE COUNT WAIT
    rm -f "$work/line"
    mkfifo "$work/line"
    exec 7<>"$work/line"
    "$work/checks" "$3" storm <&7 >"$work/out" &
    sleep 1
    found=$("$examples/$1" glibc $! "$2" "$3" 2>>"$work/errors")
    echo >&7
    sleep 1
    noticed=$(tail -1 "$work/out")
    if [ "$1" = killed ]; then
        [ "$(number lives)" = 1 ] && alive=yes || alive='**no**'
        echo -n "| $3 | $(number callers) | $(number killed) | $(number made) | $(number refused) | $alive | "
    else
        echo -n "$found "
    fi
    echo "$(number rounds) | $(number changed) | $(number ended) | $(number early) |"
    end $!
}

waits='poll ppoll select epoll_wait nanosleep nanosleep_rest clock_nanosleep read recvfrom'
echo '| wait | callers | killed | made before | refused | alive | waits | changed | ended with EINTR | too early |'
echo '|---|--:|--:|--:|--:|---|--:|--:|--:|--:|'
for wait in $waits; do row killed "$callers" $wait; done
echo
echo '| wait | calls | made | no thread to borrow | refused otherwise | median, us | longest, us | runs on | waits | changed | ended with EINTR | too early |'
echo '|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|'
for wait in $waits; do row storm "$calls" $wait; done
touch "$work/errors"
sort "$work/errors" | uniq -c >&2
