#!/bin/bash
# Gets each release of C libraries and allocators that can be had, for known.sh: from Debian's packages of several of its releases, from
# Python's packages, and by `allocanary build`. Makes a program for each in FOLDER/run: known.c with that library. Nothing is installed.
# Usage: examples/heap/releases.sh FOLDER [allocanary [SUITE...]], then: STILL=1 examples/heap/known.sh target/release FOLDER/run/*
# SUITEs are Debian's (default: bullseye bookworm trixie sid experimental); the mirror is that of apt here. Needs apt, pip, unzip, a C compiler,
# and musl-tools for musl; some minutes and 1 GB.
set -u
. "$(dirname "$0")/../lib.sh"
needs apt-get dpkg pip unzip cc
folder=$(mkdir -p "${1:?a folder}" && realpath "$1") || exit 2
locate "${2:-}"
suites=("${@:3}")
[ ${#suites[@]} -gt 0 ] || suites=(bullseye bookworm trixie sid experimental)
cd "$root" || exit 2
mkdir -p "$folder"/{run,lists/partial,cache/archives/partial,packages}
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -1)
printf "deb $mirror %s main\n" "${suites[@]}" >"$folder/sources.list"
own=(-o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$folder/lists"
    -o Dir::Cache="$folder/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
apt-get "${own[@]}" -qq update
cc -O1 -pthread -o "$folder/known" examples/heap/known.c -ldl || exit 2

# Makes a program with this name that starts what follows.
program() {
    printf '#!/bin/bash\n%s\n' "$2" >"$folder/run/$1"
    chmod +x "$folder/run/$1"
}
# Unpacks a package of a suite, and prints its version without Debian's part.
unpack() {
    local file
    file=$(cd "$folder/packages" && apt-get "${own[@]}" -qq download "$1/$suite" >&2 && ls -t "$1"_*.deb | head -1) || return 1
    dpkg -x "$folder/packages/$file" "$root"
    dpkg-deb -f "$folder/packages/$file" Version | sed -E 's/^[0-9]+://; s/[-+].*//'
    rm "$folder/packages/$file"
}
# Compiles known.c for a suite's C library.
for_suite() {
    unpack libc6-dev >/dev/null && unpack linux-libc-dev >/dev/null || return 1
    [ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
    mkdir -p "$root/lib64" && ln -sfn "$(realpath "$loader")" "$root/lib64/ld-linux-x86-64.so.2"
    cc --sysroot="$root" -B"$root/usr/lib/x86_64-linux-gnu" -L"$root/lib/x86_64-linux-gnu" -L"$root/usr/lib/x86_64-linux-gnu" -O1 \
        -o "$root/known" examples/heap/known.c -l:libpthread.so.0 -l:libdl.so.2 && echo "$root/known"
}
offered() { apt-cache "${own[@]}" madison "$1" 2>/dev/null | grep -q " [^ ]*/debian $suite/"; }

for suite in "${suites[@]}"; do
    root=$folder/roots/$suite
    mkdir -p "$root"
    offered libc6 || continue
    version=$(unpack libc6) || continue
    libraries=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu
    loader=$(realpath "$(ls "$root"/{usr/,}lib/x86_64-linux-gnu/{ld-linux-x86-64.so.2,ld-2.*.so} 2>/dev/null | tail -1)")
    known=$folder/known
    # A program for this host's C library does not start with an older one.
    "$loader" --library-path "$libraries" "$known" </dev/null >/dev/null 2>&1 || known=$(for_suite) || continue
    start="exec $loader --library-path $libraries $known \"\$@\""
    program "glibc-$version" "$start"
    # The libraries that the allocators' libraries need.
    for package in libgcc-s1 libstdc++6 liblzma5 libunwind8; do offered $package && unpack $package >/dev/null; done
    while read -r package library name; do
        offered "$package" || continue
        version=$(unpack "$package") || continue
        library=$(ls "$root"/{usr/,}lib/x86_64-linux-gnu/$library 2>/dev/null | head -1)
        [ -n "$library" ] && program "$name-$version-$suite" "LD_PRELOAD=$library $start"
    done <<'LIST'
libjemalloc2 libjemalloc.so.2 jemalloc
libmimalloc2.0 libmimalloc.so.2 mimalloc
libmimalloc3 libmimalloc.so.3 mimalloc
libtcmalloc-minimal4 libtcmalloc_minimal.so.4 tcmalloc-minimal
libtcmalloc-minimal4t64 libtcmalloc_minimal.so.4 tcmalloc-minimal
libgoogle-perftools4 libtcmalloc.so.4 tcmalloc
libgoogle-perftools4t64 libtcmalloc.so.4 tcmalloc
LIST
    # musl: the host's musl-gcc, with the other release's files.
    if offered musl-dev && command -v musl-gcc >/dev/null; then
        version=$(unpack musl) && unpack musl-dev >/dev/null || continue
        loader=$(realpath "$(ls "$root"/{usr/,}lib/x86_64-linux-musl/libc.so 2>/dev/null | head -1)")
        sed -E "s#/usr/(lib|include)/x86_64-linux-musl#$root&#g; s#/lib/ld-musl-x86_64.so.1#$loader#" \
            /usr/lib/x86_64-linux-musl/musl-gcc.specs >"$root/musl.specs"
        cc -specs "$root/musl.specs" -O1 -pthread -o "$folder/run/musl-$version" examples/heap/known.c
        cc -specs "$root/musl.specs" -O1 -static -s -o "$folder/run/musl-$version-static" examples/heap/known.c
    fi
done

# Releases that only Python's packages have.
for version in 3.2.8 3.4.3; do
    root=$folder/roots/cmeel-$version
    pip download -q --no-deps -d "$folder/packages" cmeel-mimalloc==$version && mkdir -p "$root" || continue
    unzip -qo "$folder/packages/cmeel_mimalloc-$version"*.whl -d "$root"
    program "mimalloc-$version" "LD_PRELOAD=$root/cmeel.prefix/lib/libmimalloc.so.3 exec $folder/known \"\$@\""
done

# The other releases, by `allocanary build`.
"$allocanary" build | grep -oE '(jemalloc|mimalloc)@[0-9.]+' | sort -u | while read -r name; do
    library=$("$allocanary" build "$name" | grep -oE '/[^ ]*\.so' | tail -1)
    [ -n "$library" ] && program "${name/@/-}" "LD_PRELOAD=$library exec $folder/known \"\$@\""
done
ls "$folder/run"
