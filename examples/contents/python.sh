#!/bin/bash
# The table of docs/contents.md of CPython: objects by type, the largest holder, and uncollected reference cycles, for each interpreter
# given.
# Usage: examples/contents/python.sh FOLDER-OF-ALLOCANARY PYTHON... Needs jq.
set -u
built=$(realpath "$1")
shift
cd "$(dirname "$0")/../.." || exit 2
echo '| Python | Session (50,000) | Slot (7,000) | Circle (4,000) | lost Circle (4,000) | other lost blocks, without what circles hold | largest holder |'
echo '|---|--:|--:|--:|--:|--:|---|'
for python in "$@"; do
    coproc running { exec "$python" examples/contents/python.py; }
    pid=$running_PID
    read -r _ <&"${running[0]}"
    version=$("$python" -c 'import sys; print(sys.version.split()[0])')
    "$built/allocanary" heap "$pid" --contents --json 2>/dev/null | jq -r --arg version "$version" '
        def kind($name): [.kinds[] | select(.kind == $name) | .blocks] | add // 0;
        def lost($name): [.leaked.rows[] | select(.kind == $name) | .blocks] | add // 0;
        # Each circle also has a dict, or values in its place: these are not other blocks.
        ([.leaked.rows[] | select(.blocks < 100 and .kind != "py Circle" and .kind != "py values of an object") | .blocks] | add // 0) as $other |
        "| \($version) | \(kind("py Session")) | \(kind("py Slot")) | \(kind("py Circle")) | \(lost("py Circle")) | \($other) | \(.holders[0].name) |"'
    kill "$pid"
    wait "$pid" 2>/dev/null
done
