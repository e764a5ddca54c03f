#!/bin/bash
# The table of docs/lab/profile.md of what a profile costs: instructions of a pair of malloc(64) and free, by callgrind, in one thread and in
# eight, beside what jemalloc's and tcmalloc's own samplers cost at the same distance. For redis: services.py; for memory: memory.py.
# Usage: examples/profile/cost.sh [FOLDER of allocanary]. Needs a C compiler and valgrind.
set -eu
. "$(dirname "$0")/../lib.sh"
needs cc valgrind
locate "${1:-}"
cc -O2 -fno-builtin -pthread -o "$work/pairs" "$here/pairs.c"

# Instructions of a run: LD_PRELOAD, setting, threads, pairs. $own has the settings of another sampler.
own=
count() {
    env LD_PRELOAD="$1" ALLOCANARY_PRELOAD="$2" _RJEM_MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1 $own \
        valgrind --tool=callgrind --callgrind-out-file=/dev/null "$work/pairs" "$3" "$4" 2>&1 | sed -n 's/.*Collected : //p'
}
# Instructions of a pair: the difference of two runs, which leaves out what a process costs by itself. Both runs have samples in each
# thread, because a thread's first sample reads the process's mappings.
pair() {
    few=$(count "$1" "$2" "$3" 50000)
    many=$(count "$1" "$2" "$3" 250000)
    awk "BEGIN { printf \"%.2f\", ($many - $few) / (200000 * $3) }"
}
echo '| allocator | threads | without | budget | profile | both | profile / without |'
echo '|---|--:|--:|--:|--:|--:|--:|'
for threads in 1 8; do
    for name in system jemalloc mimalloc; do
        library=$bin/preload-$name
        none=$(pair "$library" "" $threads)
        budget=$(pair "$library" memory_budget=100GiB $threads)
        profile=$(pair "$library" profile=512KiB $threads)
        both=$(pair "$library" memory_budget=100GiB,profile=512KiB $threads)
        echo "| preload-$name | $threads | $none | $budget | $profile | $both | $(awk "BEGIN { printf \"%.3f\", $profile / $none }") |"
    done
    none=$(pair "" "" $threads)
    profile=$(pair "$bin/preload-profile" "" $threads)
    echo "| glibc, preload-profile | $threads | $none | | $profile | | $(awk "BEGIN { printf \"%.3f\", $profile / $none }") |"
    # Debian's jemalloc is built with its profile. 2^19 bytes are 512 KiB.
    for name in jemalloc tcmalloc; do
        library=$(ldconfig -p | awk -v name="lib$name.so" 'index($1, name) == 1 { print $NF; exit }')
        [ -n "$library" ] || { echo "left out: lib$name.so is not installed" >&2; continue; }
        decay=dirty_decay_ms:-1,muzzy_decay_ms:-1
        own="MALLOC_CONF=$decay TCMALLOC_SAMPLE_PARAMETER=0"
        none=$(pair "$library" "" $threads)
        own="MALLOC_CONF=$decay,prof:true,lg_prof_sample:19 TCMALLOC_SAMPLE_PARAMETER=524288"
        profile=$(pair "$library" "" $threads)
        own=
        echo "| Debian's $name, its own | $threads | $none | | $profile | | $(awk "BEGIN { printf \"%.3f\", $profile / $none }") |"
    done
done
