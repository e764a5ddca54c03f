//! Tells the command which features it was built with, so that the cells that it has cargo build have the same; and links
//! the preloads as shared objects, and the cells for a fixed address.

use std::path::Path;

const CELLS: [&str; 3] = ["cell-system", "cell-jemalloc", "cell-mimalloc"];

/// The binaries that are loaded into other programs: each is linked as a shared object that exports a list of symbols.
/// Next to each bin `NAME` of `Cargo.toml` stands its list, `src/preloads/NAME.map` or the common one.
const PRELOADS: [(&str, &str); 6] = [
    ("preload-system", "src/preloads/allocator.map"),
    ("preload-jemalloc", "src/preloads/allocator.map"),
    ("preload-mimalloc", "src/preloads/allocator.map"),
    ("preload-record", "src/preloads/record.map"),
    ("preload-profile", "src/preloads/profile.map"),
    ("preload-prove", "src/preloads/prove.map"),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(shared_object)");
    let is_on =
        |name: &&str| std::env::var_os(format!("CARGO_FEATURE_{}", name.to_uppercase().replace('-', "_"))).is_some();
    // With `default` on, the package is another one for cargo than with the features that `default` stands for: without that name
    // the command would be built a second time.
    let all =
        ["default", "jemalloc", "mimalloc", "prometheus", "leaks", "system-alloc", "jemalloc-alloc", "mimalloc-alloc"];
    let on: Vec<&str> = all.into_iter().filter(is_on).collect();
    println!("cargo:rustc-env=ALLOCANARY_FEATURES={}", on.join(","));
    if is_plain_gnu() {
        link_cells();
        link_preloads();
    }
}

/// Whether programs are linked dynamically with glibc, on a processor for which this was tried.
fn is_plain_gnu() -> bool {
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let is_static = target("FEATURE").split(',').any(|feature| feature == "crt-static");
    target("ENV") == "gnu" && !is_static && ["x86_64", "aarch64"].contains(&target("ARCH").as_str())
}

/// A cell is measured from its first line on. Linked for any address, its loader would first read some 60 KiB of
/// relocations and write some 60 KiB of tables, which its allocator has nothing to do with.
fn link_cells() {
    for name in CELLS {
        println!("cargo:rustc-link-arg-bin={name}=-no-pie");
    }
}

/// The arguments of the linker for each preload. Elsewhere the same binaries are programs that say what is missing.
fn link_preloads() {
    println!("cargo:rustc-cfg=shared_object"); // their roots have no main then
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    for (name, exported) in PRELOADS {
        let exported = Path::new(&root).join(exported);
        println!("cargo:rerun-if-changed={}", exported.display());
        let list = format!("-Wl,--version-script={}", exported.display());
        for argument in [
            "-shared",
            &list,
            // GNU ld takes from the unwinder's archive only what was wanted before it: see `started_by_hand`.
            "-Wl,-u,_Unwind_Resume",
            // rust-lld refuses a list with a name that this preload has not.
            "-Wl,--undefined-version",
            // Started by hand it says what it is.
            "-Wl,-e,allocanary_started_by_hand",
        ] {
            println!("cargo:rustc-link-arg-bin={name}={argument}");
        }
        if name == "preload-record" {
            // Opened by a running process, its own functions are meant inside of it, and not those of the same names before it.
            println!("cargo:rustc-link-arg-bin={name}=-Wl,-Bsymbolic-functions");
        }
        if ["preload-record", "preload-profile", "preload-prove"].contains(&name) {
            continue; // they have no settings to apply, and the allocator behind them begins first
        }
        for argument in [
            // Its constructors run before those of all other libraries: settings come before the first allocation.
            "-Wl,-z,initfirst",
            // The allocator's own threads wait without giving back: they hold its locks meanwhile.
            "-Wl,--wrap=pthread_cond_wait",
            "-Wl,--wrap=pthread_cond_timedwait",
        ] {
            println!("cargo:rustc-link-arg-bin={name}={argument}");
        }
        if name == "preload-mimalloc" {
            // A fork waits for the allocator's locks, for which it has no handlers itself.
            for function in ["pthread_mutex_lock", "pthread_mutex_unlock"] {
                println!("cargo:rustc-link-arg-bin={name}=-Wl,--wrap={function}");
            }
        }
    }
}
