# What a contributor runs. `just` lists these; each is also a command that can be typed. See CONTRIBUTING.md.

features := "prometheus,leaks"

# What is here.
default:
    @just --list

# One crate's tests: `just quick study`.
quick crate *name:
    cargo test --release --locked -p allocanary-{{crate}} --lib {{name}}

# Tests of the command and its binaries by name: `just it limits`.
it *name:
    cargo test --release --locked --features {{features}} --test it -- {{name}}

# Every test.
test:
    cargo test --release --workspace --locked --features {{features}}

# What needs a real reading: is memory given back, do parts add up, does a replay agree? `just measured --list` names them.
measured *flags:
    cargo build --release --locked --workspace --bins --features {{features}}
    "${CARGO_TARGET_DIR:-target}/release/measured" {{flags}}

# Formatting, lints and documentation, as the gate wants them.
lint:
    cargo fmt --all --check
    cargo clippy --release --workspace --all-targets --locked --features {{features}} -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps --locked --features {{features}}

# Golden files as they are now. Read the difference before you commit it.
golden:
    UPDATE_GOLDEN=1 cargo test --release --workspace --locked --features {{features}} --test it --test golden

# Random cases for every property, so many seconds each.
fuzz seconds="60":
    ALLOCANARY_FUZZ_SECONDS={{seconds}} cargo test --release --workspace --locked --features {{features}} --lib --test it -- ::fuzz_

# Programs of nasty calls, so many, under the recorder, the profile and each preload.
nasty draws="200":
    cargo build --release --locked --workspace --bins --features {{features}}
    tests/nasty/run.sh target/release {{draws}}

# The command and its preloads in an emulated machine of aarch64 with pages of 4 and of 16 KiB: some ten minutes. See docs/lab/arm.md.
arm *flags:
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc cargo build --release --locked -p allocanary-cli --bins \
        --no-default-features --features system-alloc --target aarch64-unknown-linux-gnu
    examples/vm/arm.sh "${CARGO_TARGET_DIR:-target}/aarch64-unknown-linux-gnu/release" {{flags}}

# All that is known of aarch64 in that machine: also borrowed threads, recorders in running programs, and services. More than an hour.
arm-all *pages:
    examples/vm/arm-all.sh {{pages}}

# Everything that must hold before a change lands: some twenty minutes.
gate:
    .ci/run

# Twenty of Debian's programs under every preload, before a release.
programs *name:
    cargo build --release --locked --bins
    tests/programs/run.sh {{name}}

# The canary's memory while peers come and go, for so many minutes.
soak minutes="2":
    cargo build --release --locked --workspace --bins --features {{features}}
    examples/kube_canary/tests/soak.sh {{minutes}}

# Every package from this clone, in target/dist: tarball, Debian packages, wheel, container image. See docs/install.md.
dist arch="x86_64":
    dist/all.sh {{arch}}
    dist/sums.sh

# The packages in clean systems: `just try bookworm-deb`, all without a name. As root.
try *name:
    dist/try.sh {{name}}

# Everything that must hold before this version is released. Publishes nothing.
release version:
    dist/release.sh {{version}}
