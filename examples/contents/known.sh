#!/bin/bash
# The table of docs/lab/contents.md of programs that know what they lost: what `allocanary heap --contents` finds without a stop and with
# --freeze, under each allocator, and what LeakSanitizer and valgrind find.
# Usage: examples/contents/known.sh [FOLDER of allocanary and its preloads]. Needs jq, a C and a C++ compiler; valgrind, if it is there.
set -u
. "$(dirname "$0")/../lib.sh"
needs jq cc c++
locate "${1:-}"
programs=$root/crates/contents/tests/programs

# Compiles program $1 with the other words as flags, to $work/$2.
compile() {
    local source=$programs/$1 out=$work/$2
    shift 2
    case $source in
    *.cpp) c++ -pthread -o "$out" "$source" "$@" ;;
    *) cc -pthread -o "$out" "$source" "$@" ;;
    esac
}
# Leaked blocks by one reading of $pid, with the readings that it took.
ours() {
    reading "$pid" --contents "$@" |
        jq -r 'if .leaked then "\(.leaked.blocks)" else "not told" end'
}

echo '| program | flags | allocator | lost | without a stop | --freeze |'
echo '|---|---|---|--:|--:|--:|'
for program in lost.c things.cpp moving.c; do
    for flags in "-O0" "-O2 -s"; do
        # shellcheck disable=SC2086
        compile $program program $flags || exit 2
        for allocator in glibc "jemalloc 5.3.0 of Debian" jemalloc mimalloc; do
            preload=$(preload_of "$allocator") || continue
            converse env LD_PRELOAD="$preload" "$work/program"
            lost=${answer#lost=}
            echo "| $program | \`$flags\` | $allocator | ${lost%% *} | $(ours) | $(ours --freeze) |"
            end "$pid"
        done
    done
done

echo
echo '| program | lost | LeakSanitizer | valgrind, definitely and indirectly |'
echo '|---|--:|--:|--:|'
for program in lost.c things.cpp; do
    compile $program program -O0 || exit 2
    compile $program sanitized -O0 -fsanitize=leak || exit 2
    answer=$("$work/program" </dev/null)
    lost=${answer#lost=}
    sanitizer=$("$work/sanitized" </dev/null 2>&1 | sed -n 's/^SUMMARY.* in \([0-9]*\) allocation.*/\1/p')
    grind='not installed'
    if command -v valgrind >/dev/null; then
        grind=$(valgrind --leak-check=full "$work/program" </dev/null 2>&1 |
            sed -n 's/.*\(definitely\|indirectly\) lost: .* in \([0-9,]*\) blocks/\2/p' | tr -d , | awk '{ sum += $1 } END { print sum + 0 }')
    fi
    echo "| $program | ${lost%% *} | ${sanitizer:-none} | $grind |"
done
