#!/bin/sh
# Runs the programs that the Makefile built, in the named variants, and prints a table of resident memory at the end.
# In: names of variants. Out: a line for each test that failed, the table, and 0 if none failed.
set -u
cd "$(dirname "$0")" || exit 1
unset MALLOC_CONF JE_MALLOC_CONF _RJEM_MALLOC_CONF GLIBC_TUNABLES MALLOC_ARENA_MAX
failed=0
# A processor on which this process may run.
processor=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)

fail() {
    echo "FAILED: $*" >&2
    failed=1
}

# expect NAME WANTED COMMAND...: the command must print WANTED.
expect() {
    name=$1 wanted=$2
    shift 2
    found=$("$@" 2>/dev/null)
    [ "$found" = "$wanted" ] || fail "$name: wanted '$wanted', found '$found'"
}

# matches NAME PATTERN COMMAND...: what the command prints must match a shell pattern.
matches() {
    name=$1 pattern=$2
    shift 2
    found=$("$@" 2>/dev/null)
    # shellcheck disable=SC2254
    case $found in
    $pattern) ;;
    *) fail "$name: wanted '$pattern', found '$found'" ;;
    esac
}

# The names that the header declares.
declared() {
    sed -n 's/^[A-Za-z].*[ *]\(allocanary_[a-z_]*\)(.*);$/\1/p' allocanary.h | sort
}

# The names that an archive exports: global names of its Rust objects that are neither mangled nor hidden. Left out are C objects (of the
# allocators, and functions that gcc calls by itself, such as __muldc3), compiler_builtins (the same in Rust), and two
# necessary names: the personality of unwinding, and jemalloc's configuration, which the feature exports to jemalloc.
exported() {
    readelf --syms --wide "$1" 2>/dev/null | awk '
        /^File:/ { ours = /\.rcgu\.o\)$/ && !/compiler_builtins/ }
        ours && ($5 == "GLOBAL" || $5 == "WEAK") && $6 != "HIDDEN" && $7 != "UND" && $8 !~ /^(_R|_ZN)/ { print $8 }' |
        grep -vxE '(DW\.ref\.)?rust_eh_personality|(_rjem_)?malloc_conf' | sort -u
}

cmp -s build/allocanary.h allocanary.h || fail "allocanary.h is not what the sources say: make header"
for archive in build/*/liballocanary.a build/*/static/liballocanary.a; do
    [ "$(exported "$archive")" = "$(declared)" ] ||
        fail "$archive and allocanary.h differ: $(exported "$archive" | tr '\n' ' ')"
done

for variant in "$@"; do
    for linked in "" -static; do
        build/"$variant"/test$linked || fail "$variant: test$linked"
    done
    if command -v valgrind >/dev/null; then
        # valgrind cannot see into a heap that is mapped separately, so leaks are counted only if the heap is C's. A
        # shared heap must stay the program's own, but valgrind would replace any function named malloc.
        leaks=no
        [ "$variant" = system ] && leaks=full
        valgrind --quiet --error-exitcode=9 --leak-check=$leaks --errors-for-leak-kinds=definite \
            --show-leak-kinds=definite --soname-synonyms=somalloc=nouserintercepts \
            build/"$variant"/test valgrind || fail "$variant: valgrind"
    else
        echo "skipped: valgrind is not installed"
    fi
    ALLOCANARY_MEMORY_BUDGET=64MiB build/"$variant"/test pressure 2>"build/$variant/said" || fail "$variant: pressure: $(cat "build/$variant/said")"
    matches "$variant: a budget that is none" '5 *ALLOCANARY_MEMORY_BUDGET: *found `80%`*' \
        env ALLOCANARY_MEMORY_BUDGET=80% build/"$variant"/test check
    build/"$variant"/test profile >"build/$variant/heap.pb.gz" || fail "$variant: profile"
    if command -v go >/dev/null; then
        # The 64 MiB of the test, and its 16 bytes of a head.
        matches "$variant: go tool pprof" '*64MB*allocanary_calloc*' \
            go tool pprof -top -sample_index=inuse_space "build/$variant/heap.pb.gz"
    fi
    matches "$variant: a profile that is none" '5 *ALLOCANARY_PROFILE: *found `often`*' \
        env ALLOCANARY_PROFILE=often build/"$variant"/test check
    matches "$variant: metrics" '# HELP allocanary_*# TYPE allocanary_resident_bytes gauge*' \
        build/"$variant"/test metrics
    strange=$(build/"$variant"/test metrics | grep -vE \
        '^(# (HELP|TYPE) allocanary_[a-z_]+ .+|allocanary_[a-z_]+\{allocator="(system|jemalloc|mimalloc)"(,part="[a-z_]+")?\} [0-9]+)$')
    [ -z "$strange" ] || fail "$variant: not a line of metrics: $strange"
    if [ -x build/"$variant"/go ]; then
        matches "$variant: go" '*allocanary_requested_bytes{allocator="*"} 1000000' build/"$variant"/go stats
    fi
done

# Waiting threads give their memory back. They then keep at most three quarters of what they keep otherwise. glibc keeps
# little anyway, so its figures are only shown.
echo "Resident MiB of 32 threads that wait, as they are and with allocanary_thread_idle"
for variant in "$@"; do
    for program in idle go-idle; do
        [ -x build/"$variant"/$program ] || continue
        kept=$(ALLOCANARY_THREADS_GIVE_BACK=false build/"$variant"/$program | cut -d' ' -f2)
        left=$(ALLOCANARY_THREADS_GIVE_BACK=true build/"$variant"/$program | cut -d' ' -f2)
        echo "| $variant | $program | $kept | $left |"
        share=0.75
        [ "$variant" = system ] && share=1.1
        awk -v kept="$kept" -v left="$left" -v share=$share 'BEGIN { exit !(left > 0 && left < kept * share) }' ||
            fail "$variant: $program: $left MiB of $kept are left"
    done
done
echo

build/checked/test || fail "checked: test"
build/checked/test checked || fail "a second free is not named"

# Too little address space for the threads' stacks: this is an error, and no thread waits for one that could not start.
matches "threads that cannot be started" '*thread * of 1024 cannot be started*' \
    sh -c 'ulimit -v 1000000; timeout 60 build/system/main C 1024 1 2>&1'

# The hook that configures jemalloc is linked and runs before the first allocation: settings take effect, and there are
# 4 arenas for each available processor.
for program in build/jemalloc/test build/jemalloc/test-static build/jemalloc-shared/test; do
    expect "$program: MALLOC_CONF" 1 env MALLOC_CONF=narenas:1 $program arenas
    expect "$program: JE_MALLOC_CONF" 3 env JE_MALLOC_CONF=narenas:3 $program arenas
    expect "$program: MALLOC_CONF is later" 2 env JE_MALLOC_CONF=narenas:3 MALLOC_CONF=narenas:2 $program arenas
    expect "$program: one processor" 1 taskset -c "$processor" $program arenas
    expect "$program: a bad setting" '5 MALLOC_CONF: jemalloc has no setting `narena`' \
        env MALLOC_CONF=narena:1 $program check
done
# In a fully static program glibc's start-up calls malloc before any code of the program. If jemalloc is this malloc, it
# gets settings only from its own variable. The check reports this.
late=build/jemalloc-shared/test-static
expect "$late: MALLOC_CONF" 1 env MALLOC_CONF=narenas:1 $late arenas
matches "$late: what came too late is told" '5 JE_MALLOC_CONF: narenas: wanted 3, found *' env JE_MALLOC_CONF=narenas:3 $late check
expect "_RJEM_MALLOC_CONF" 1 env _RJEM_MALLOC_CONF=narenas:1 build/jemalloc/test arenas
matches "_RJEM_MALLOC_CONF is told to be ignored" '5 _RJEM_MALLOC_CONF: narenas: wanted 1, found *' \
    env _RJEM_MALLOC_CONF=narenas:1 build/jemalloc-shared/test check
expect "a program that only uses malloc" 1 taskset -c "$processor" build/jemalloc-shared/only-malloc
expect "system: one processor" 8 taskset -c "$processor" build/system/test arenas
expect "system: the environment wins" 3 env GLIBC_TUNABLES=glibc.malloc.arena_max=3 build/system/test arenas
matches "mimalloc: a bad setting" '5 MIMALLOC_PURGE_DELAY: *' env MIMALLOC_PURGE_DELAY=soon build/mimalloc/test check

echo
echo "Resident MiB of 32 threads of the service, 500 requests each"
echo "| library         | program   |   arenas | at start | after service | after purge |"
echo "|-----------------|-----------|---------:|---------:|--------------:|------------:|"
for variant in "$@"; do
    build/"$variant"/main C 32 500 || fail "$variant: main"
    build/"$variant"/main-static "C, static" 32 500 || fail "$variant: main-static"
    if [ -x build/"$variant"/go ]; then
        build/"$variant"/go Go 32 500 || fail "$variant: go"
    fi
done
echo
[ $failed = 0 ] && echo "all passed"
exit $failed
