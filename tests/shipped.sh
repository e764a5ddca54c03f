#!/usr/bin/env bash
# Compiles a service that ships an allocator as docs/shipping.md says: its line for Cargo.toml and its Rust, below the marker of this script.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
service=$(mktemp -d)
trap 'rm -rf "$service"' EXIT
page=$root/docs/shipping.md marker='<!-- tests/shipped.sh compiles the next two blocks -->'
grep -qxF -- "$marker" "$page" || { echo "shipped.sh: $page: wanted the line $marker, found none"; exit 1; }
# The first block of a language below the marker. It reads the page to its end: a reader that stops early kills the one who writes to
# it, at random, and that is a failure here.
block() { awk -v start="^\`\`\`$1" -v marker="$marker" '!done && on && /^```/ {done=1} on && !done; $0 == marker {below=1} below && $0 ~ start {on=1}' "$page"; }
mkdir "$service/src"
{
    printf '[package]\nname = "service"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n[dependencies]\n'
    block toml | sed "s|path = \"../allocanary/|path = \"$root/|"
} >"$service/Cargo.toml"
# What stands in a worker thread is the body of a function.
{
    block rust | sed '/^\/\/ In a worker/,$d'
    echo 'fn work(queue: std::sync::mpsc::Receiver<u32>) {'
    block rust | sed -n '/^\/\/ In a worker/,$p'
    echo '    println!("{work:?}");'
    echo '}'
    echo 'fn main() { work(std::sync::mpsc::channel().1) }'
} >"$service/src/main.rs"
cp "$root/Cargo.lock" "$service/"
cargo check --release --quiet --offline --manifest-path "$service/Cargo.toml" --target-dir "${CARGO_TARGET_DIR:-$root/target}"
echo "the service of docs/shipping.md compiles"
