# How Rust and C are compiled for $arch and an old glibc. Sourced, after versions.sh.
. dist/tools.sh
out=$PWD/target/dist/$arch
mkdir -p "$out"

# Compile and link against the stubs of the old glibc.
triple=$arch-unknown-linux-gnu
[ -d "$out/stubs-$GLIBC" ] || dist/stubs.sh "$arch" "$GLIBC" "$out/stubs-$GLIBC"
export DIST_STUBS=$out/stubs-$GLIBC DIST_CC=$arch-linux-gnu-gcc
variable=${triple//-/_}
export "CC_$variable=$PWD/dist/cc" "CARGO_TARGET_$(tr a-z A-Z <<<"$variable")_LINKER=$PWD/dist/cc"
# No path of this machine in the files: they show in messages of panics and in debug information.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export CFLAGS="-ffile-prefix-map=$PWD=/allocanary -ffile-prefix-map=$cargo_home=/cargo"
export "CARGO_TARGET_$(tr a-z A-Z <<<"$variable")_RUSTFLAGS=--remap-path-prefix=$PWD=/allocanary --remap-path-prefix=$cargo_home=/cargo"
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$PWD/target/dist/build
# jemalloc refuses to start where pages are larger than it was built for.
[ "$arch" != aarch64 ] || export JEMALLOC_SYS_WITH_LG_PAGE=16
