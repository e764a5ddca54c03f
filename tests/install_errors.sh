#!/usr/bin/env bash
# Compiles programs with a mistake in their `install!`, and compares what the compiler says. Only this project's own sentences are compared,
# and that a wrong name is pointed at with the right one.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
mkdir -p "$package/src/bin"
printf '[package]\nname = "mistakes"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n[dependencies]\nallocanary = { path = "%s/crates/allocanary", default-features = false, features = ["jemalloc"] }\n' "$root" >"$package/Cargo.toml"
cp "$root/Cargo.lock" "$package/"
# The line of the program, and what the compiler must say.
mistakes=(
    'jemalloc, narenas = 0|narenas: wanted a whole number from 1 to 4094, auto or per_cpu(n); found 0'
    'jemalloc, narenas = "many"|narenas: wanted a whole number from 1 to 4094, auto or per_cpu(n); found many'
    'jemalloc, tcache_max = "16 parsecs"|tcache_max: wanted a size such as 65536 or 64KiB; found 16 parsecs'
    'jemalloc, background_thread = 1|background_thread: wanted true or false; found 1'
    'jemalloc, narenas = 1, narenas = 2|narenas is set twice: leave one out'
    'jemalloc, arena_max = 1|arena_max: this allocator has no such setting'
    'jemalloc, narena = 2|`narenas`'
)
for number in "${!mistakes[@]}"; do
    echo "allocanary::install!(${mistakes[number]%|*}); fn main() {}" >"$package/src/bin/m$number.rs"
done
said=$(cargo check --release --offline --keep-going --bins --manifest-path "$package/Cargo.toml" --target-dir "${CARGO_TARGET_DIR:-$root/target}" 2>&1) && {
    echo "wanted errors; everything was compiled"
    exit 1
}
for number in "${!mistakes[@]}"; do
    # What is said of one program: from its error to the line that counts its errors.
    of_one=$(awk -v file="src/bin/m$number.rs" '/^error/ {text = ""} {text = text "\n" $0} index($0, file) {on = 1} on && /^$/ {print text; on = 0; text = ""}' <<<"$said")
    grep -F -- "${mistakes[number]##*|}" <<<"$of_one" >/dev/null || {
        printf 'install!(%s): wanted `%s`; the compiler says:\n%s\n' "${mistakes[number]%|*}" "${mistakes[number]##*|}" "$of_one"
        exit 1
    }
done
echo "${#mistakes[@]} mistakes in an install! are told as they are"
