//! Tells the command which features it was built with, so that the cells that it has cargo build have the same.
//! In a service, which does without the feature `command`, it does nothing.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_on =
        |name: &&str| std::env::var_os(format!("CARGO_FEATURE_{}", name.to_uppercase().replace('-', "_"))).is_some();
    if is_on(&"command") {
        let all = [
            "command",
            "jemalloc",
            "mimalloc",
            "stats",
            "prometheus",
            "leaks",
            "system-alloc",
            "jemalloc-alloc",
            "mimalloc-alloc",
        ];
        let on: Vec<&str> = all.into_iter().filter(is_on).collect();
        println!("cargo:rustc-env=ALLOCANARY_FEATURES={}", on.join(","));
    }
}
