#!/bin/bash
# The table of docs/contents.md of programs that know what they lost: what `allocanary heap --contents` finds without a stop and with
# --freeze, under each allocator, and what LeakSanitizer and valgrind find.
# Usage: examples/contents/known.sh [FOLDER of allocanary and its preloads]. Needs jq, a C and a C++ compiler; valgrind, if it is there.
set -u
built=${1:-target/release}
cd "$(dirname "$0")/../.." || exit 2
built=$(realpath "$built")
programs=crates/contents/tests/programs
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Compiles program $1 with the other words as flags, to $folder/$2.
build() {
    local source=$programs/$1 out=$folder/$2
    shift 2
    case $source in
    *.cpp) c++ -pthread -o "$out" "$source" "$@" ;;
    *) cc -pthread -o "$out" "$source" "$@" ;;
    esac
}
# Leaked blocks by one reading of $pid, with the readings that it took.
ours() {
    "$built/allocanary" heap "$pid" --contents --json "$@" 2>/dev/null |
        jq -r 'if .leaked then "\(.leaked.blocks)" else "not told" end'
}

echo '| program | flags | allocator | lost | without a stop | --freeze |'
echo '|---|---|---|--:|--:|--:|'
for program in lost.c things.cpp moving.c; do
    for flags in "-O0" "-O2 -s"; do
        # shellcheck disable=SC2086
        build $program program $flags || exit 2
        for allocator in glibc "jemalloc 5.3.0 of Debian" jemalloc mimalloc; do
            case $allocator in
            glibc) preload= ;;
            *Debian) preload=$(ls /usr/lib/*/libjemalloc.so.2 2>/dev/null | head -1) ;;
            *) preload=$built/preload-$allocator ;;
            esac
            if [ "$allocator" != glibc ] && [ ! -e "$preload" ]; then
                echo "left out: $allocator is not installed" >&2
                continue
            fi
            coproc running { LD_PRELOAD=$preload exec "$folder/program"; }
            pid=$running_PID
            read -r answer <&"${running[0]}"
            lost=${answer#lost=}
            echo "| $program | \`$flags\` | $allocator | ${lost%% *} | $(ours) | $(ours --freeze) |"
            kill "$pid"
            wait "$pid" 2>/dev/null
        done
    done
done

echo
echo '| program | lost | LeakSanitizer | valgrind, definitely and indirectly |'
echo '|---|--:|--:|--:|'
for program in lost.c things.cpp; do
    build $program program -O0 || exit 2
    build $program sanitized -O0 -fsanitize=leak || exit 2
    answer=$("$folder/program" </dev/null)
    lost=${answer#lost=}
    sanitizer=$("$folder/sanitized" </dev/null 2>&1 | sed -n 's/^SUMMARY.* in \([0-9]*\) allocation.*/\1/p')
    grind='not installed'
    if command -v valgrind >/dev/null; then
        grind=$(valgrind --leak-check=full "$folder/program" </dev/null 2>&1 |
            sed -n 's/.*\(definitely\|indirectly\) lost: .* in \([0-9,]*\) blocks/\2/p' | tr -d , | awk '{ sum += $1 } END { print sum + 0 }')
    fi
    echo "| $program | ${lost%% *} | ${sanitizer:-none} | $grind |"
done
