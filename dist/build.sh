#!/usr/bin/env bash
# Builds the files that every package is made of, for glibc 2.28 or later, into target/dist/ARCH/tree (laid out as below /usr), and
# their debug information into target/dist/ARCH/debug. The same sources give the same bytes.
#
#   dist/build.sh [x86_64|aarch64]
#
# Needs Rust as pinned in dist/versions.sh, gcc (for aarch64: gcc-aarch64-linux-gnu), binutils, python3 with venv.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
. dist/versions.sh
. dist/environment.sh
tree=$out/tree debug=$out/debug
rm -rf "$tree" "$debug"
mkdir -p "$tree"/{bin,lib/allocanary} "$tree/share/doc/allocanary" "$debug"

# mimalloc contains the date of its compilation. A date that is always the same makes the same bytes, and builds nothing again.
SOURCE_DATE_EPOCH=0 cargo build --release --locked --bins --target "$triple"

# Debug information and symbols apart. `heap` finds what it needs of a preload without them.
built=$CARGO_TARGET_DIR/$triple/release
split() { # FILE WHERE
    "$arch-linux-gnu-strip" --strip-all -o "$2" "$1"
    local id
    id=$("$arch-linux-gnu-readelf" -n "$1" | sed -n 's/^ *Build ID: //p')
    mkdir -p "$debug/lib/debug/.build-id/${id:0:2}"
    "$arch-linux-gnu-objcopy" --only-keep-debug --compress-debug-sections=zlib "$1" "$debug/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
}
split "$built/allocanary" "$tree/bin/allocanary"
install -m 755 dist/kubectl-allocanary "$tree/bin/kubectl-allocanary"
for file in "$built"/cell-* "$built"/preload-* "$built/allocanary-bursts"; do
    case $file in *.d) continue ;; esac
    split "$file" "$tree/lib/allocanary/$(basename "$file")"
done
chmod 644 "$tree"/lib/allocanary/preload-*

# Pages and completions: by the command itself, or by this machine's build of it if it cannot run here.
command=$tree/bin/allocanary
if [ "$arch" != "$(uname -m)" ]; then
    command=$PWD/target/dist/$(uname -m)/tree/bin/allocanary
    [ -x "$command" ] || { echo "build.sh: $arch takes its manual pages from $command: run dist/build.sh $(uname -m) first"; exit 1; }
fi
mkdir -p "$tree"/share/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
"$command" man --out-dir "$tree/share/man/man1" >/dev/null
echo '.so man1/allocanary-kube.1' >"$tree/share/man/man1/kubectl-allocanary.1"
"$command" completions bash >"$tree/share/bash-completion/completions/allocanary"
"$command" completions zsh >"$tree/share/zsh/site-functions/_allocanary"
"$command" completions fish >"$tree/share/fish/vendor_completions.d/allocanary.fish"

# What is linked, under which licences.
cp README.md CHANGELOG.md "$tree/share/doc/allocanary/"
python3 dist/parts.py "$triple" . allocanary-cli "$tree/share/doc/allocanary"

dist/check.sh "$arch"
