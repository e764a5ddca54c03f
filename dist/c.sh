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
# Cargo puts the folder of a crate that is outside of the workspace into the names of its symbols, and here all of `crates/` is outside.
# So that every folder gives the same bytes, the library is built in a copy of the sources where it is a member. Only its package is
# built, so that no other one gets its features.
sources=$out/c-sources
rm -rf "$sources"
mkdir -p "$sources"
git ls-files -z | xargs -0 cp -P --parents -t "$sources"
sed -i -e 's/^exclude = \["c_glue"\]$//' -e 's/^members = \["crates/members = ["c_glue", "crates/' "$sources/Cargo.toml"
sed -i -e '/^\[workspace\]$/,/^$/d' -e '/^\[profile/,$d' "$sources/c_glue/Cargo.toml"
as_there=(--config 'profile.release.debug="line-tables-only"' --config profile.release.codegen-units=1)
flags=CARGO_TARGET_$(tr a-z A-Z <<<"$variable")_RUSTFLAGS
export "$flags=${!flags} --remap-path-prefix=$sources=/allocanary"
(cd "$sources" && cargo metadata --quiet --format-version 1 >/dev/null)
added=$(diff <(grep '^name' Cargo.lock) <(grep '^name' "$sources/Cargo.lock") | grep '^[<>]' || true)
[ "$added" = '> name = "allocanary-c"' ] || { echo "c.sh: wanted one package more in Cargo.lock, found: $added"; exit 1; }
for variant in system jemalloc mimalloc; do
    (cd "$sources" && SOURCE_DATE_EPOCH=0 cargo build --release --locked -p allocanary-c --features "$variant" --target "$triple" "${as_there[@]}")
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
