#!/usr/bin/env bash
# Lints the Debian packages. The wheel was checked when it was made.
set -euo pipefail
cd "$(dirname "$0")/.."
. dist/versions.sh
lintian --fail-on error,warning --tag-display-limit 0 target/dist/*_"${VERSION}"_*.deb
echo "lintian found no error and no warning"
