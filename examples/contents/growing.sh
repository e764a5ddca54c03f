#!/bin/bash
# Two services that grow, of docs/contents.md: what two readings of each show. SECONDS are between the two readings [default: 600].
# Usage: examples/contents/growing.sh [FOLDER of allocanary] [SECONDS]. Needs python3 and a C++ compiler.
set -eu
built=$(realpath "${1:-target/release}")
seconds=${2:-600}
cd "$(dirname "$0")"
folder=$(mktemp -d)
services=()
trap 'kill "${services[@]}"; rm -rf "$folder"' EXIT
c++ -O2 -s -o "$folder/growing" growing.cpp
"$folder/growing" &
services+=($!)
/usr/bin/python3 growing.py &
services+=($!)
sleep 60 # the table of names is full
read_all() {
    for pid in "${services[@]}"; do
        "$built/allocanary" heap "$pid" --contents --save "$folder/$pid.$1" >/dev/null
    done
}
read_all before
sleep "$seconds"
read_all after
for pid in "${services[@]}"; do
    "$built/allocanary" heap diff "$folder/$pid.before" "$folder/$pid.after"
    echo
done
