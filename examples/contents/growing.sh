#!/bin/bash
# Two services that grow, of docs/lab/contents.md: what two readings of each show. SECONDS are between the two readings [default: 600].
# Usage: examples/contents/growing.sh [FOLDER of allocanary] [SECONDS]. Needs python3 and a C++ compiler.
set -eu
. "$(dirname "$0")/../lib.sh"
needs c++ /usr/bin/python3
locate "${1:-}"
seconds=${2:-600}
services=()
c++ -O2 -s -o "$work/growing" "$here/growing.cpp"
"$work/growing" &
services+=($!)
/usr/bin/python3 "$here/growing.py" &
services+=($!)
sleep 60 # the table of names is full
read_all() {
    for pid in "${services[@]}"; do
        "$allocanary" heap "$pid" --contents --save "$work/$pid.$1" >/dev/null
    done
}
read_all before
sleep "$seconds"
read_all after
for pid in "${services[@]}"; do
    "$allocanary" heap diff "$work/$pid.before" "$work/$pid.after"
    echo
done
