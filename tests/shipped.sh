#!/usr/bin/env bash
# Compiles a service that ships an allocator as README.md says under "Ship it": its line for Cargo.toml and its Rust, as they stand there.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
service=$(mktemp -d)
trap 'rm -rf "$service"' EXIT
# The first block of a language below that heading. It reads the page to its end: a reader that stops early kills the one who writes to
# it, at random, and that is a failure here.
block() { awk -v start="^\`\`\`$1" '/^## Where/ {below=0} below && !done && on && /^```/ {done=1} on && !done; /^## Ship it/ {below=1} below && $0 ~ start {on=1}' "$root/README.md"; }
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
echo "the service of the README compiles"
