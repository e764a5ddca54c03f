#!/usr/bin/env bash
# Everything that must hold before a release, from a clean clone; the gate (.ci/run) is a command of its own. Publishes nothing: at its end
# it prints the commands by which a person does.
#
#   dist/release.sh VERSION
#
# Needs root for dist/try.sh; cargo-deny, cargo-semver-checks and a nightly Rust (for the page as docs.rs builds it).
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=${1:?wanted a version, as 0.2.0}
step() { printf '\n=== %s\n' "$*"; }

step "sources"
[ -z "$(git status --porcelain)" ] || { echo "release.sh: wanted a clean clone, found changes:"; git status --short; exit 1; }
dist/version-is.sh "$wanted"

# The gate draws the same values each time. These are new ones, a minute for each property; a failure names its seed.
step "fuzz"
ALLOCANARY_FUZZ_SECONDS=60 cargo test --release --workspace --locked --features prometheus,leaks --lib -- ::fuzz_

step "licences, sources, advisories"
cargo deny --locked check licenses bans sources
cargo deny --locked check advisories || [ -n "${NO_ADVISORIES:-}" ] ||
    { echo "release.sh: NO_ADVISORIES=1 goes on where the database of advisories cannot be reached"; exit 1; }

step "crates"
cargo publish --workspace --dry-run --locked

step "the library's page"
features=$(sed -n '/docs.rs/,/^$/ s/^features = \[\(.*\)\]/\1/p' crates/allocanary/Cargo.toml | tr -d '" ')
RUSTDOCFLAGS="--cfg docsrs -D warnings" cargo +nightly doc -p allocanary --no-deps --locked --features "$features" --target-dir target/docsrs

step "the library's interface"
last=$(git tag --list 'v*' --sort=-v:refname | grep -vx "v$wanted" | head -n 1)
if [ -n "$last" ]; then
    cargo semver-checks --package allocanary --baseline-rev "$last"
else
    echo "no release before this one"
fi

step "packages"
dist/all.sh x86_64
dist/all.sh aarch64
dist/sums.sh

step "the same bytes in another folder"
dist/again.sh x86_64

step "lint"
dist/lint.sh

step "clean systems"
dist/try.sh
dist/try-bad.sh

cat <<END

All of it holds. To publish:
  git tag -s v$wanted && git push origin v$wanted       # .github/workflows/release.yml drafts the release from it
  cargo publish --workspace --locked
  target/dist/tools/bin/twine upload target/dist/*.whl
  skopeo copy oci-archive:target/dist/allocanary-$wanted-x86_64-image.tar docker://REGISTRY/allocanary:$wanted
END
