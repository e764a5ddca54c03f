#!/usr/bin/env bash
# What a service brings in with the crate `allocanary`: packages, seconds of a clean build, bytes of the stripped program. Beside it stands the
# same service with the allocator's own crate, and with neither. The services are built in turns. Needs strip. Prints a Markdown table.
# Usage: examples/library/brings.sh [REPEATS]
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
needs cargo strip
repeats=${1:-3}
crate=$root/crates/allocanary

# A service: its folder, its dependencies, and what stands above its main. A path with a space is too much for jemalloc's configure.
service() {
    mkdir -p "$work/$1/src"
    printf '[package]\nname = "service"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n[dependencies]\n%s\n[profile.release]\nlto = "thin"\n' "$2" >"$work/$1/Cargo.toml"
    printf '%s\nfn main() { println!("{:?}", std::env::args().collect::<Vec<_>>()) }\n' "$3" >"$work/$1/src/main.rs"
    cp "$root/Cargo.lock" "$work/$1/"
}
global() { printf '#[global_allocator]\nstatic GLOBAL: %s = %s;' "$1" "$1"; }
names=()
add() { service "${#names[@]}" "$2" "$3"; names+=("$1"); }
add "no crate" "" ""
add "tikv-jemallocator" 'tikv-jemallocator = "0.7"' "$(global tikv_jemallocator::Jemalloc)"
add "allocanary, jemalloc" "allocanary = { path = \"$crate\" }" 'allocanary::install!(jemalloc, narenas = per_cpu(1), background_thread = true);'
add "mimalloc" 'mimalloc = { version = "0.1", features = ["extended"] }' "$(global mimalloc::MiMalloc)"
add "allocanary, mimalloc" "allocanary = { path = \"$crate\", default-features = false, features = [\"mimalloc\"] }" 'allocanary::install!(mimalloc, purge_delay = 100);'
add "allocanary, system" "allocanary = { path = \"$crate\", default-features = false }" 'allocanary::install!(system, arena_max = per_cpu(1));'

for ((time = 0; time < repeats; time++)); do
    for at in "${!names[@]}"; do
        cd "$work/$at"
        rm -rf target
        [ "$time" -gt 0 ] || cargo fetch --quiet
        begun=$(date +%s%N)
        CARGO_TARGET_DIR=target cargo build --release --quiet --offline
        echo $((($(date +%s%N) - begun) / 1000000)) >>times
    done
done
echo '| service with | packages | of them run at build time only | clean build, s | program, KiB |'
echo '|---|--:|--:|--:|--:|'
for at in "${!names[@]}"; do
    cd "$work/$at"
    packages() { cargo tree --offline --edges "$1" --prefix none --format '{p}' | sed 's/ (.*//' | sort -u | grep -cv '^service ' || true; }
    strip target/release/service -o stripped
    all=$(packages normal,build)
    echo "| ${names[at]} | $all | $((all - $(packages normal,no-proc-macro))) |" \
        "$(median <times | awk '{ printf "%.1f", $1 / 1000 }') | $(($(stat -c %s stripped) / 1024)) |"
done
