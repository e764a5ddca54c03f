#!/usr/bin/env bash
# Fails if a file of a package asks for a newer glibc than is promised, or if a package is too large.
#
#   dist/check.sh [ARCH]
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
. dist/versions.sh
tree=target/dist/$arch/tree
for file in "$tree/bin/allocanary" "$tree"/lib/allocanary/*; do
    newest=$("$arch-linux-gnu-objdump" -T "$file" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
    [ "$(printf '%s\n' "$newest" "GLIBC_$GLIBC" | sort -V | tail -n 1)" = "GLIBC_$GLIBC" ] ||
        { echo "check.sh: $file: wanted GLIBC_$GLIBC or older, found $newest"; exit 1; }
    needed=$("$arch-linux-gnu-objdump" -p "$file" | sed -n 's/^ *NEEDED *//p' | grep -vE '^(libc|libm|libpthread|libdl|librt|libgcc_s|ld-linux.*)\.so\.[0-9]$' || true)
    [ -z "$needed" ] || { echo "check.sh: $file: wanted only glibc's libraries and libgcc_s, found $needed"; exit 1; }
    if grep -qaF -e "$PWD" -e "${CARGO_HOME:-$HOME/.cargo}/registry" "$file"; then
        echo "check.sh: $file: wanted no path of this machine, found one"
        exit 1
    fi
done
installed=$(du -s --apparent-size --block-size=1000000 "$tree" | cut -f 1)
[ "$installed" -le 60 ] || { echo "check.sh: $tree: wanted at most 60 MB, found $installed MB"; exit 1; }
echo "$arch: no file needs a newer glibc than $GLIBC; $installed MB installed"
