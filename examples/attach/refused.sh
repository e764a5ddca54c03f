#!/bin/bash
# How `record --attach` refuses programs: linked statically with glibc and with musl, dynamically with musl, built with AddressSanitizer,
# with an allocator linked in (allocanary itself has jemalloc), and under Valgrind.
# In: the folder of the built binaries. Out: a line for each program. The command must refuse each program, and each must live.
#
#     examples/attach/refused.sh target/release
#
# It needs gcc, musl-gcc (musl-tools) and valgrind. If a program is missing, it is left out, and a line says so.
set -u
. "$(dirname "$0")/../lib.sh"
locate "${1:-}"
source=$root/crates/inside/tests/programs/busy.c
# A pipe that is open and stays empty: the programs read from it.
mkfifo "$work/input"
exec 9<>"$work/input"
failed=0

# refused NAME COMMAND...: starts the program, and tries to attach.
refused() {
    name=$1
    shift
    "$@" <&9 >/dev/null 2>&1 &
    pid=$!
    sleep 2
    said=$("$allocanary" record --attach $pid --for 1s -o "$work/traces" 2>&1)
    code=$?
    kill -0 $pid 2>/dev/null || said="$said (THE PROGRAM HAS ENDED)" failed=1
    [ $code = 2 ] || said="$said (THE CODE IS $code)" failed=1
    echo "$name: $said" | sed "s|/proc/$pid/|/proc/PID/|g; s/process $pid/process PID/; s|$work/||g"
    end $pid
}
# built NAME COMPILER FLAGS...
built() {
    name=$1 compiler=$2
    shift 2
    command -v "$compiler" >/dev/null && "$compiler" -O1 -pthread "$@" -o "$work/$name" "$source" && return
    echo "$name: $compiler is not here, or cannot build it: left out"
    return 1
}

built static gcc -static && refused static "$work/static"
built musl-static musl-gcc -static && refused musl-static "$work/musl-static"
built musl musl-gcc && refused musl "$work/musl"
built asan gcc -fsanitize=address && refused asan "$work/asan"
refused linked-in "$allocanary" node --listen 127.0.0.1:0
built plain gcc && command -v valgrind >/dev/null && refused valgrind valgrind "$work/plain"
exit $failed
