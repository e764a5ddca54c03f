#!/usr/bin/env bash
# Debian packages of what dist/build.sh and dist/c.sh made: target/dist/allocanary_VERSION_ARCH.deb and liballocanary-dev_VERSION_ARCH.deb.
#
#   dist/deb.sh [x86_64|aarch64]
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
. dist/versions.sh
case $arch in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; *) echo "deb.sh: wanted x86_64 or aarch64, found $arch"; exit 1 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
maintainer=${DEB_MAINTAINER:-allocanary <allocanary@users.noreply.github.com>}
date=$(date -u -R -d "@$SOURCE_DATE_EPOCH")

# The files that each package has for dpkg. In: FOLDER PACKAGE, and the fields of its control file as standard input.
package() {
    local folder=$1 name=$2
    mkdir -p "$folder/DEBIAN" "$folder/usr/share/doc/$name"
    printf '%s (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n -- %s  %s\n' \
        "$name" "$VERSION" "$maintainer" "$date" | gzip -9n >"$folder/usr/share/doc/$name/changelog.gz"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$name" "$VERSION" "$debian" "$maintainer"
        printf 'Installed-Size: %s\n' "$(du -k -s --apparent-size "$folder/usr" | cut -f 1)"
        printf 'Homepage: https://github.com/allocanary/allocanary\nPriority: optional\n'
        cat
    } >"$folder/DEBIAN/control"
    (cd "$folder" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$folder/DEBIAN/md5sums"
    chmod -R u+w,go-w "$folder"
    dpkg-deb --root-owner-group -Zxz --build "$folder" "target/dist/${name}_${VERSION}_$debian.deb" >/dev/null
    echo "target/dist/${name}_${VERSION}_$debian.deb $(stat -c %s "target/dist/${name}_${VERSION}_$debian.deb") bytes"
}

# The command.
folder=$work/allocanary
mkdir -p "$folder/usr/share/lintian/overrides"
cp -a "target/dist/$arch/tree/." "$folder/usr/"
gzip -9n "$folder"/usr/share/man/man1/*.1 "$folder/usr/share/doc/allocanary/CHANGELOG.md"
mv "$folder/usr/share/zsh/site-functions" "$folder/usr/share/zsh/vendor-completions"
cp dist/lintian-overrides "$folder/usr/share/lintian/overrides/allocanary"
package "$folder" allocanary <<CONTROL
Section: devel
Depends: libc6 (>= $GLIBC), libgcc-s1
Description: where the memory of a service is, and what its allocator costs
 allocanary takes the heap of a running process apart (glibc, jemalloc,
 mimalloc, tcmalloc), gives free memory back to the kernel without a restart,
 compares allocators and settings under your own program, and prints the lines
 to ship.
 .
 The package has the command, the programs that it measures, and the libraries
 that it preloads, in /usr/lib/allocanary. It needs no Rust.
CONTROL

# The library for C and Go.
if [ -d "target/dist/$arch/c" ]; then
    folder=$work/dev
    mkdir -p "$folder"
    cp -a "target/dist/$arch/c" "$folder/usr"
    package "$folder" liballocanary-dev <<CONTROL
Section: libdevel
Depends: libc6-dev
Suggests: pkg-config
Description: allocator tuning and statistics for services in C and Go
 A static library and its header: memory with a count, live tuning, statistics
 and metrics of the allocator that is linked. There is a library for each of the
 system's malloc, jemalloc and mimalloc; pkg-config knows them as
 allocanary-system, allocanary-jemalloc and allocanary-mimalloc.
CONTROL
fi
