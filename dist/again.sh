#!/usr/bin/env bash
# Builds every package a second time, from a fresh clone in another folder, and compares the bytes.
#
#   dist/again.sh [x86_64|aarch64]
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
first=$PWD/target/dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet . "$work/clone"
(cd "$work/clone" && dist/all.sh "$arch")
differ=0
for file in "$work"/clone/target/dist/*allocanary*; do
    if cmp "$file" "$first/$(basename "$file")"; then
        echo "same bytes: $(basename "$file")"
    else
        differ=1
    fi
done
exit "$differ"
