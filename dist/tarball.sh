#!/usr/bin/env bash
# Packs what dist/build.sh made: target/dist/allocanary-VERSION-ARCH-linux-gnu.tar.gz, and one with the debug information.
#
#   dist/tarball.sh [x86_64|aarch64]
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
. dist/versions.sh
name=allocanary-$VERSION-$arch-linux-gnu
pack() { # FOLDER NAME
    tar --create --directory "$1" --transform "s,^\.,$2," --sort=name --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --format=gnu . | gzip -9n >"target/dist/$2.tar.gz"
    echo "target/dist/$2.tar.gz $(stat -c %s "target/dist/$2.tar.gz") bytes"
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -a "target/dist/$arch/tree/." "$work/"
cp LICENSE-APACHE LICENSE-MIT "$work/share/doc/allocanary/"
chmod 755 "$work"
pack "$work" "$name"
pack "target/dist/$arch/debug" "$name-debug"
