#!/usr/bin/env bash
# The tables of docs/lab/arm.md, in an emulated machine of aarch64: programs that know their live blocks, under each allocator, and programs that
# know what each of their functions has allocated, under the recorder, the profile, the agent and a preload. Or it writes cores for a test.
#
#   examples/vm/arm.sh [FOLDER of allocanary for aarch64] [4k] [16k]     # pages of the kernel, default: both
#   CORES=FOLDER examples/vm/arm.sh ...                                  # writes cores there instead: crates/heap/tests/cores
#   STACKS=FILE examples/vm/arm.sh ...                                   # runs this program instead: tests of stacks, built for aarch64
#   GIVE_BACK=1 examples/vm/arm.sh ...                                   # tables of give-back instead; needs the examples killed and storm
#   ATTACH=1 examples/vm/arm.sh ...                                      # tables of attach instead; needs the example attaches
#   CALLS_OF=FILE examples/vm/arm.sh ...                                 # runs tests/calls.rs of crates/inside instead, built for aarch64
#   SERVICES='redis python' examples/vm/arm.sh ...                       # reads, borrows and profiles these services instead
#
# What is downloaded stays in target/arm. Needs qemu-system-arm, busybox-static, gcc-aarch64-linux-gnu, and apt-get with a source of Debian's
# packages. MIRROR=URL: another source. KERNEL=FILE: this kernel instead. Some five minutes of one processor for each kernel.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
. "$root/examples/vm/debian.sh"
needs qemu-system-aarch64 busybox aarch64-linux-gnu-gcc aarch64-linux-gnu-strip apt-get dpkg
pages=() folder=$root/target/aarch64-unknown-linux-gnu/release
for argument; do case $argument in 4k | 16k) pages+=("$argument") ;; *) folder=$argument ;; esac; done
[ ${#pages[@]} -gt 0 ] || pages=(4k 16k)
[ -x "$folder/preload-record" ] || [ -n "${CORES:-}${STACKS:-}${CALLS_OF:-}" ] || fail "wanted $folder/allocanary and its preloads for aarch64, found none: just arm"
mirror=${MIRROR:-$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } | sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' | head -n 1)}
kept=$root/target/arm
mkdir -p "$kept"

# Debian 12 and 13, as far as programs here need them. A machine with a root of 100 MB starts five times more slowly.
if [ ! -d "$kept/debian" ]; then
    unpack bookworm "$work/bookworm" busybox-static bash mawk jq libjq1 libonig5 libtinfo6 libc6 libgcc-s1 'libstdc\+\+6' libjemalloc2 \
        libmimalloc2.0 libtcmalloc-minimal4 libunwind8 liblzma5
    unpack trixie "$work/trixie" libc6 libgcc-s1 'libstdc\+\+6' libjemalloc2 libmimalloc3 libtcmalloc-minimal4t64 musl-dev
    mv "$work/bookworm" "$work/trixie" "$kept/"
    mkdir "$kept/debian"
fi
system=$work/root
mkdir -p "$system"/{bin,lib,trixie}
cp "$kept"/bookworm/bin/{busybox,bash} "$kept/bookworm/usr/bin/jq" "$system/bin/"
cp "$kept/bookworm/usr/bin/mawk" "$system/bin/awk"
libraries() { # RELEASE TO NAME...
    local name
    for name in "${@:3}"; do cp -L "$(find "$kept/$1" -name "$name" -not -type d | head -n 1)" "$system/$2/$name"; done
}
shared=(ld-linux-aarch64.so.1 libc.so.6 libm.so.6 libgcc_s.so.1 libstdc++.so.6 libjemalloc.so.2 libtcmalloc_minimal.so.4)
libraries bookworm lib "${shared[@]}" libmimalloc.so.2 libtinfo.so.6 libjq.so.1 libonig.so.5 libunwind.so.8 liblzma.so.5
libraries trixie trixie "${shared[@]}" libmimalloc.so.3

# Redis and Python of Debian 12, with what these two programs read.
if [ -n "${SERVICES:-}${ATTACH:-}" ]; then
    from=$kept/services
    if [ ! -d "$from" ]; then
        # redis-server is another name of a program in redis-tools.
        unpack bookworm "$work/services" redis-tools libatomic1 liblzf1 libssl3 libsystemd0 libcap2 libgcrypt20 liblz4-1 libzstd1 \
            libgpg-error0 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libexpat1 zlib1g
        mv "$work/services" "$from"
    fi
    mkdir -p "$system/usr/"{bin,lib/python3.11}
    cp "$from/usr/bin/"redis-{cli,benchmark} "$system/usr/bin/"
    cp "$from/usr/bin/redis-check-rdb" "$system/usr/bin/redis-server"
    cp "$from/usr/bin/python3.11" "$system/usr/bin/python3"
    cp -r "$from/usr/lib/python3.11/"{collections,encodings,importlib,json,re,lib-dynload,*.py} "$system/usr/lib/python3.11/"
    find "$from/lib" "$from/usr/lib/aarch64-linux-gnu" -name '*.so.*' -exec cp -P {} "$system/lib/" \;
fi

# Each program up to four times: for glibc 2.36, for 2.41 with its loader, static, and for musl.
compile() { # SOURCE NAME [glibc: not for musl]
    local gcc=(aarch64-linux-gnu-gcc -O1 -pthread) musl=$kept/trixie/usr/lib/aarch64-linux-musl
    "${gcc[@]}" -o "$work/payload/$2" "$1" -ldl
    "${gcc[@]}" -o "$work/payload/$2-2.41" "$1" -ldl -Wl,--dynamic-linker=/trixie/ld-linux-aarch64.so.1 -Wl,-rpath,/trixie
    "${gcc[@]}" -static -o "$work/payload/$2-static" "$1" -ldl 2>/dev/null
    [ "${3:-}" != glibc ] || return 0
    "${gcc[@]}" -mno-outline-atomics -static -nostdinc -nostdlib -isystem "$kept/trixie/usr/include/aarch64-linux-musl" \
        -isystem "$("${gcc[@]}" -print-file-name=include)" -o "$work/payload/$2-musl" \
        "$musl"/{crt1.o,crti.o} "$1" "$musl/libc.a" -lgcc -lgcc_eh "$musl/libc.a" "$musl/crtn.o"
}
mkdir -p "$work/payload"/{heap,vm,bin,give_back,programs}
# Scripts and tests compile programs, for which there is no compiler in the machine. $KNOWN is what they get, or a program of that name.
cat >"$work/payload/bin/cc" <<'GUEST'
#!/bin/bash
name=$KNOWN
while [ $# -gt 0 ]; do
    case $1 in
    -o) to=$2 ;;
    -static | -s) kind=${kind:-}$1 ;;
    *.c) [ -n "$KNOWN" ] || name=/payload/programs/$(basename "$1" .c) ;;
    esac
    shift
done
cp "$name${kind:-}" "$to"
GUEST
chmod +x "$work/payload/bin/cc"
if [ -n "${CORES:-}" ]; then
    compile "$root/crates/heap/tests/cores/heap.c" heap-of
    cp "$here/arm-cores.sh" "$work/payload/run.sh"
elif [ -n "${STACKS:-}" ]; then
    cp "$STACKS" "$work/payload/stacks"
    echo './stacks' >"$work/payload/run.sh"
elif [ -n "${CALLS_OF:-}" ]; then
    for name in holds checks stands; do compile "$root/crates/inside/tests/programs/$name.c" "programs/$name" glibc; done
    aarch64-linux-gnu-strip -o "$work/payload/programs/holds-static-s" "$work/payload/programs/holds-static"
    aarch64-linux-gnu-strip -o "$work/payload/calls" "$CALLS_OF"
    echo "PATH=/payload/bin:\$PATH KNOWN= ./calls --test-threads 1 ${TESTS:-} 2>&1" >"$work/payload/run.sh"
else
    compile "$root/examples/heap/known.c" known
    compile "$here/sites.c" sites
    compile "$root/examples/who/shares.c" shares
    # As in the packages: without debug information, which would be most of the machine's root.
    for file in allocanary cell-system preload-{record,profile,prove,system}; do
        aarch64-linux-gnu-strip --strip-all -o "$work/payload/$file" "$folder/$file"
    done
    cp "$root/examples/lib.sh" "$work/payload/"
    cp "$here/arm-known.sh" "$work/payload/run.sh"
    cp "$here/"arm-{sites,attach}.sh "$work/payload/vm/"
    cp "$root/examples/heap/"known.{sh,c} "$work/payload/heap/"
    if [ -n "${SERVICES:-}" ]; then
        { echo "SERVICES='$SERVICES' CALLS=${CALLS:-}" && cat "$here/arm-services.sh"; } >"$work/payload/run.sh"
    elif [ -n "${GIVE_BACK:-}" ]; then
        compile "$root/crates/inside/tests/programs/checks.c" checks glibc
        for file in killed storm; do aarch64-linux-gnu-strip -o "$work/payload/$file" "$folder/examples/$file"; done
        cp "$root/examples/give_back/killed.sh" "$work/payload/give_back/"
        printf '#!/bin/bash\n' >"$work/payload/bin/cargo"
        { echo "CALLERS=${CALLERS:-} CALLS=${CALLS:-}" && cat "$here/arm-give-back.sh"; } >"$work/payload/run.sh"
    fi
    if [ -n "${ATTACH:-}" ]; then
        compile "$root/crates/inside/tests/programs/busy.c" programs/busy glibc
        echo 'int opened_function(void) { return 7; }' >"$work/opened.c"
        aarch64-linux-gnu-gcc -O1 -pthread -Wl,-z,now -o "$work/payload/sites-now" "$here/sites.c"
        aarch64-linux-gnu-gcc -shared -fPIC -o "$work/payload/programs/opened" "$work/opened.c"
        mkdir -p "$work/payload"/{attach,examples}
        cp "$folder/examples/attaches" "$work/payload/examples/"
        cp "$root/examples/attach/"{known.sh,objects.py} "$work/payload/attach/"
        cp "$work/payload/bin/cc" "$work/payload/bin/gcc"
        { echo "TIMES=${TIMES:-}" && cat "$here/arm-attached.sh"; } >"$work/payload/run.sh"
    fi
    # The options of realpath that busybox does not have.
    cat >"$work/payload/bin/realpath" <<'GUEST'
#!/bin/bash
[ "$1" != -m ] && [ "$1" != -s ] || shift
case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac
GUEST
    chmod +x "$work"/payload/bin/*
fi

[ -z "${CORES:-}" ] || mkdir -p "$CORES"
[ -z "${CORES:-}" ] || : >"$CORES/figures"
status=0
for size in "${pages[@]}"; do
    image=${KERNEL:-$(arm_kernel "$size" "$kept")}
    ARCH=aarch64 ROOT=$system KERNEL=$image TIMEOUT=${TIMEOUT:-7200} "$here/boot.sh" 1 2G "$work/payload" 'bash run.sh' >"$work/said" || status=1
    if [ -z "${CORES:-}" ]; then
        cat "$work/said"
        continue
    fi
    while read -r word name figures; do
        [ "$word" = core ] || continue
        echo "$name $figures" >>"$CORES/figures"
        sed -n "/^core $name /,/^end/ { /^core\|^end/ d; p }" "$work/said" | base64 -d >"$CORES/$name.gz"
    done <"$work/said"
done
exit $status
