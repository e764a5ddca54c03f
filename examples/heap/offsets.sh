#!/bin/bash
# Prints where a release of an allocator has the fields that `allocanary heap` reads, from the release's own headers: one line a field. The
# fields are those of the walkers' tables (crates/walkers/src). "not there" is a field that this release does not have.
# Usage: examples/heap/offsets.sh LIST SOURCES [COMPILER FLAGS...]
# LIST is the name of a file in examples/heap/offsets without `.txt`; SOURCES is the folder of the release. Configure jemalloc's sources
# first.
set -u
. "$(dirname "$0")/../lib.sh"
needs cc
list=$here/offsets/${1:?a list}.txt
sources=${2:?the folder of the sources}
shift 2
more=("$@")
[ -r "$list" ] || fail "$list: no such list; there are: $(cd "$here/offsets" && echo *.txt)"
read -r flags < <(sed -n 's/^flags //p' "$list")
grep '^#' "$list" >"$work/head.h"
# One value: the value of a C expression.
value() {
    printf '#include <stdio.h>\n#include <stddef.h>\n#include "%s/head.h"\nint main(void) { printf("%%zu\\n", (size_t)(%s)); }\n' "$work" "$1" >"$work/one.c"
    (cd "$sources" && cc -w -O2 $flags "${more[@]}" -o "$work/one" "$work/one.c" -lpthread -lm -ldl) >"$work/log" 2>&1 && "$work/one"
}
printf '%-28s %-30s %s\n' structure field bytes
found_any=0
while read -r type field; do
    case $type in '' | '#'* | flags) continue ;; esac
    case $field in
    '') expression="sizeof($type)" ;;
    '=') expression=$type ;;
    *) expression="offsetof($type, $field)" ;;
    esac
    if found=$(value "$expression"); then
        found_any=1
        printf '%-28s %-30s %s\n' "$type" "$field" "$found"
    else
        printf '%-28s %-30s %s\n' "$type" "$field" "not there"
    fi
done <"$list"
# If no field is there, the headers themselves do not compile.
[ $found_any -eq 1 ] || { grep -m3 error "$work/log" >&2; exit 1; }
