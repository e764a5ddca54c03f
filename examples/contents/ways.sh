#!/bin/bash
# The table of docs/lab/contents.md of the ways to lose, to hold and to hide a block: how many blocks of each way are leaked by
# `allocanary heap --contents --freeze`, by LeakSanitizer, and by valgrind (definitely and indirectly).
# Usage: examples/contents/ways.sh [FOLDER of allocanary]. Needs jq, a C and a C++ compiler; valgrind, if it is there.
set -u
. "$(dirname "$0")/../lib.sh"
needs jq cc c++
locate "${1:-}"
export WAY_LIBRARY=$work/libway.so
cd "$work" || exit 2
cc -shared -fPIC -o libway.so "$here/way_library.c" || exit 2
c++ -std=c++20 -O1 -g -pthread -w -o ways "$here/ways.cc" -ldl || exit 2
c++ -std=c++20 -O1 -g -pthread -w -fsanitize=leak -o sanitized "$here/ways.cc" -ldl || exit 2

# Sums "SIZE BLOCKS" lines by size.
sums() { awk '{ sum[$1] += $2 } END { for (size in sum) print size, sum[size] }'; }

mkfifo input
./ways <input >list &
pid=$!
exec 3>input
until grep -q '^end' list; do sleep 0.1; done
grep -v '^end' list >truth
reading "$pid" --contents --freeze | jq -r '.leaked.rows[] | "\(.each_bytes) \(.blocks)"' | sums >ours
exec 3>&-
LSAN_OPTIONS=report_objects=1 ./sanitized end 2>&1 | sed -n 's/^0x[0-9a-f]* (\([0-9]*\) bytes)$/\1 1/p' | sums >sanitizer
if command -v valgrind >/dev/null; then
    valgrind --leak-check=full --show-leak-kinds=definite,indirect ./ways end 2>&1 >/dev/null | tr -d , |
        sed -nE 's/^==[0-9]*== ([0-9]+) (\(([0-9]+) direct [0-9]+ indirect\) )?bytes in ([0-9]+) blocks are (definitely|indirectly) lost.*/\1 \3 \4/p' |
        awk '{ print (NF == 3 ? $2 / $3 : $1 / $2), $NF }' | sums >grind
fi

of() { [ -e "$1" ] && awk -v size="$2" '$1 == size { found = $2 } END { print found + 0 }' "$1" || echo '-'; }

echo '| way | blocks | truth | leaked by allocanary | LeakSanitizer | valgrind |'
echo '|---|--:|---|--:|--:|--:|'
while read -r size count truth name; do
    echo "| $name | $count | $truth | $(of ours "$size") | $(of sanitizer "$size") | $(of grind "$size") |"
done <truth
