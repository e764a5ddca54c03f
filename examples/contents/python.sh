#!/bin/bash
# The table of docs/lab/contents.md of CPython: objects by type, the largest holder, and uncollected reference cycles, for each interpreter
# given.
# Usage: examples/contents/python.sh FOLDER-OF-ALLOCANARY PYTHON... Needs jq.
set -u
. "$(dirname "$0")/../lib.sh"
needs jq
[ $# -ge 2 ] || fail "wanted the folder of allocanary and a python3, found $# words"
locate "$1"
shift
echo '| Python | Session (50,000) | Slot (7,000) | Circle (4,000) | lost Circle (4,000) | other lost blocks, without what circles hold | largest holder |'
echo '|---|--:|--:|--:|--:|--:|---|'
for python in "$@"; do
    converse "$python" "$here/python.py"
    version=$("$python" -c 'import sys; print(sys.version.split()[0])')
    reading "$pid" --contents | jq -r --arg version "$version" '
        def kind($name): [.kinds[] | select(.kind == $name) | .blocks] | add // 0;
        def lost($name): [.leaked.rows[] | select(.kind == $name) | .blocks] | add // 0;
        # Each circle also has a dict, or values in its place: these are not other blocks.
        ([.leaked.rows[] | select(.blocks < 100 and .kind != "py Circle" and .kind != "py values of an object") | .blocks] | add // 0) as $other |
        "| \($version) | \(kind("py Session")) | \(kind("py Slot")) | \(kind("py Circle")) | \(lost("py Circle")) | \($other) | \(.holders[0].name) |"'
    end "$pid"
done
