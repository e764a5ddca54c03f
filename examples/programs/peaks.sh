#!/usr/bin/env bash
# Does the peak of a replay compare with that of the program? Records three programs of many threads, runs each under twelve
# candidates, replays its trace under the same, and prints both side by side. The table of peaks of docs/lab/traces.md comes from here:
#
#     cargo build --release --bins && PATH=$PWD/target/release:$PATH examples/programs/peaks.sh OUT TEST-STRESS.C [REPEATS]
#
# What the threads of a program hold at one time depends on the order in which they run. So each program is recorded five times, and each
# recording is replayed.
# In the root of a clone of allocanary. TEST-STRESS.C is test/test-stress.c of mimalloc's sources (`apt-get source mimalloc`). Needs cc,
# c++ and rustc. Rows and ranges are in OUT/PROGRAM.
set -eu
. "$(dirname "$0")/../lib.sh"
[ $# -ge 2 ] || fail "wanted a new folder for the results and the path of test-stress.c, found $# words"
needs allocanary cc c++ rustc
out=$1
stress=$2
repeats=${3:-10}
programs=examples/programs
at_end() { rm -f mstress handover-cpp handover-rs; }
cc -O2 -pthread -DUSE_STD_MALLOC -DNDEBUG "$stress" -o mstress
c++ -O2 -pthread $programs/handover.cpp -o handover-cpp
rustc -O $programs/handover.rs -o handover-rs
verify() {
    name=$1
    shift
    echo "$name"
    allocanary record --verify --out-dir "$out/$name" --repeats "$repeats" --recordings 5 \
        --candidates system system:arena_max=1 system:arena_max=2 jemalloc jemalloc:narenas=1 jemalloc:narenas=2 \
        jemalloc:tcache=false jemalloc:narenas=1,tcache=false jemalloc:dirty_decay_ms=0 mimalloc mimalloc:allow_thp=0 \
        mimalloc:purge_delay=0 "$@"
}
verify mstress -- ./mstress 8 10 5
for program in handover-cpp handover-rs; do
    verify "$program" --program "$programs/$program.toml" --settle 50ms
done
