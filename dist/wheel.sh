#!/usr/bin/env bash
# The Python wheel of what dist/build.sh made, checked by twine.
#
#   dist/wheel.sh [x86_64|aarch64]
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
. dist/versions.sh
. dist/tools.sh
python3 dist/wheel.py "target/dist/$arch/tree" "$VERSION" "$arch" "$GLIBC" README.md target/dist
wheel=$(echo "target/dist/allocanary-$VERSION"-py3-none-*_"$arch".whl)
"$tools/bin/twine" check --strict "$wheel"
size=$(stat -c %s "$wheel")
[ "$size" -le 25000000 ] || { echo "wheel.sh: $wheel: wanted at most 25 MB, found $size bytes"; exit 1; }
