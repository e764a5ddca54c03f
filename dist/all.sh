#!/usr/bin/env bash
# Every package for one architecture, from a clone: tarballs, Debian packages, wheel, container image. What it makes is in target/dist.
#
#   dist/all.sh [x86_64|aarch64]
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
dist/build.sh "$arch"
dist/c.sh "$arch"
dist/tarball.sh "$arch"
dist/deb.sh "$arch"
dist/wheel.sh "$arch"
dist/image.sh "$arch"
