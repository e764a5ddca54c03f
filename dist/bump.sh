#!/usr/bin/env bash
# Gives the sources a new version, and the change log's newest part this version and today's date. Commits nothing.
#
#   dist/bump.sh 0.2.0
set -euo pipefail
cd "$(dirname "$0")/.."
new=$1
old=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[[ $new =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "bump.sh: wanted a version such as 0.2.0, found $new"; exit 2; }
grep -q '^## .*unreleased$' CHANGELOG.md || { echo "bump.sh: CHANGELOG.md: wanted a heading '## ..., unreleased', found none"; exit 1; }
sed -i "s/^version = \"$old\"/version = \"$new\"/; /^allocanary/ s/version = \"$old\"/version = \"$new\"/" Cargo.toml
sed -i "s/^version = \"$old\"/version = \"$new\"/" c_glue/Cargo.toml
sed -i "s/^allocanary = \"[0-9.]*\"/allocanary = \"${new%.*}\"/" crates/allocanary/README.md
sed -i "s/^\/\/! allocanary = { version = \"[0-9.]*\"/\/\/! allocanary = { version = \"${new%.*}\"/" crates/allocanary/src/lib.rs
sed -i "s/^## .*unreleased$/## $new, $(date -u +%F)/" CHANGELOG.md
cargo update --workspace --offline --quiet
(cd c_glue && cargo update --workspace --offline --quiet)
git diff --stat
