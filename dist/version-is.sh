#!/usr/bin/env bash
# Fails if the sources, the change log and a tag do not name the same version.
#
#   dist/version-is.sh VERSION
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$1
. dist/versions.sh
[ "$VERSION" = "$wanted" ] || { echo "version-is.sh: Cargo.toml: wanted version $wanted, found $VERSION: dist/bump.sh sets it"; exit 1; }
grep -q "^## $wanted, 20[0-9-]*$" CHANGELOG.md ||
    { echo "version-is.sh: CHANGELOG.md: wanted a heading '## $wanted, DATE', found '$(grep -m 1 '^## ' CHANGELOG.md)'"; exit 1; }
