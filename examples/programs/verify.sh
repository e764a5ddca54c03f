#!/usr/bin/env bash
# Is a replay like the program? Records six programs, runs each under four allocators, replays its trace under the same,
# and prints both side by side. The table of docs/lab/traces.md comes from here:
#
#     cargo build --release --bins && PATH=$PWD/target/release:$PATH examples/programs/verify.sh OUT [REPEATS]
#
# Run it in the root of a clone of allocanary, because git reads the clone's history. Needs redis-server, redis-benchmark, python3, git,
# cc, c++ and rustc. Each must be the program itself: a version manager's python3 is a script. Rows and ranges are in OUT/PROGRAM.
set -eu
. "$(dirname "$0")/../lib.sh"
[ $# -ge 1 ] || fail "wanted a new folder for the results, found none"
needs allocanary redis-server redis-benchmark python3 git cc c++ rustc
out=$1
repeats=${2:-5}
programs=examples/programs
at_end() { rm -f handover-cpp handover-rs threads-c; }
c++ -O2 -pthread $programs/handover.cpp -o handover-cpp
rustc -O $programs/handover.rs -o handover-rs
cc -O1 -pthread -w tests/record/threads.c -o threads-c
# Python's own allocator of small objects would hide them.
export PYTHONMALLOC=malloc
verify() {
    name=$1
    shift
    echo "$name"
    allocanary record --verify --out-dir "$out/$name" --repeats "$repeats" \
        --candidates system jemalloc jemalloc:narenas=1 mimalloc "$@"
}
for program in redis python git handover-cpp handover-rs; do
    verify "$program" --program "$programs/$program.toml"
done
verify threads -- ./threads-c
