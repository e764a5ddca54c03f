#!/usr/bin/env bash
# Builds the static library for C and Go, for glibc 2.28 or later, into target/dist/ARCH/c (laid out as below /usr).
#
#   dist/c.sh [x86_64|aarch64]
#
# Runs after dist/build.sh, whose stubs and tools it takes.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
. dist/versions.sh
. dist/environment.sh
libraries=lib/$arch-linux-gnu
rm -rf "$out/c"
mkdir -p "$out/c/include" "$out/c/$libraries/pkgconfig" "$out/c/share/doc/liballocanary-dev"
cp c_glue/allocanary.h "$out/c/include/"
cp c_glue/README.md "$out/c/share/doc/liballocanary-dev/"
for variant in system jemalloc mimalloc; do
    (cd c_glue && SOURCE_DATE_EPOCH=0 cargo build --release --locked --features "$variant" --target "$triple")
    mkdir -p "$out/c/$libraries/allocanary/$variant"
    library=$out/c/$libraries/allocanary/$variant/liballocanary.a
    "$arch-linux-gnu-strip" --strip-debug --enable-deterministic-archives -o "$library" "$CARGO_TARGET_DIR/$triple/release/liballocanary.a"
    cat >"$out/c/$libraries/pkgconfig/allocanary-$variant.pc" <<PC
prefix=/usr
libdir=\${prefix}/$libraries/allocanary/$variant
includedir=\${prefix}/include

Name: allocanary-$variant
Description: Allocator tuning and statistics with $variant
Version: $VERSION
Cflags: -I\${includedir}
Libs: -L\${libdir} -l:liballocanary.a -lpthread -ldl -lm
PC
done
python3 dist/parts.py "$triple" c_glue allocanary-c "$out/c/share/doc/liballocanary-dev"
