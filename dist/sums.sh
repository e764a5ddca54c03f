#!/usr/bin/env bash
# SHA-256 of every package in target/dist, as `sha256sum --check` reads it, and each list of parts as a file of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
. dist/versions.sh
for arch in x86_64 aarch64; do
    list=target/dist/$arch/tree/share/doc/allocanary/sbom.cdx.json
    [ ! -f "$list" ] || cp "$list" "target/dist/allocanary-$VERSION-$arch-linux-gnu.cdx.json"
    list=target/dist/$arch/c/share/doc/liballocanary-dev/sbom.cdx.json
    [ ! -f "$list" ] || cp "$list" "target/dist/liballocanary-$VERSION-$arch-linux-gnu.cdx.json"
done
cd target/dist
find . -maxdepth 1 -type f -name '*allocanary*' -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS
cat SHA256SUMS
