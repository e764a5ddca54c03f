#!/usr/bin/env bash
# All that is known of aarch64, in the emulated machine of arm.sh: its tables, those of give-back and of recorders in running programs, the tests of
# borrowed threads, the tests of stacks, and two services of Debian.
#
#   examples/vm/arm-all.sh [4k] [16k]     # pages of the kernel, default: both
#
# Builds what it needs. One processor for some 40 minutes with each kernel. Exits with 1 if one of these fails, after all of them.
set -uo pipefail
. "$(dirname "$0")/../lib.sh"
needs jq cargo
target=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
cd "$root"
folder=${CARGO_TARGET_DIR:-target}/$target/release
cargo build --release --locked -p allocanary-cli --bins --no-default-features --features system-alloc --target $target &&
    cargo build --release --locked -p allocanary-inside --examples --target $target || fail "cargo could not build: see above"
# The program of a test, as cargo names it.
test_of() { # CRATE TEST
    cargo test --release --locked -p "$1" --test "$2" --no-run --target $target --message-format json | jq -r 'select(.executable != null) | .executable'
}
calls=$(test_of allocanary-inside calls) && stacks=$(test_of allocanary-stacks backtrace) || fail "cargo could not build the tests: see above"

status=0
part() { # TITLE VARIABLE=VALUE... -- PAGES...
    local title=$1 variables=()
    shift
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    printf '\n=== %s\n' "$title"
    env "${variables[@]}" examples/vm/arm.sh "$folder" "$@" || { echo "$title: it failed"; status=1; }
}
part "programs, recordings, profiles, the agent" -- "$@"
part "give-back" GIVE_BACK=1 CALLERS=24 CALLS=16 -- "$@"
part "recorders in running programs" ATTACH=1 -- "$@"
part "tests of borrowed threads" CALLS_OF="$calls" -- "$@"
part "services" SERVICES='redis python' CALLS=10 -- "$@"
# One of these protects 4 KiB of a page.
part "tests of stacks" STACKS="$stacks" -- 4k
exit $status
