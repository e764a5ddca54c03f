//! How the canary is linked. In: the target and the profile. Out: an argument for the linker, so that what runs with every
//! probe lies together (deploy/hot.ld); 1.6 MB less is resident.
//!
//! GNU ld and lld know such scripts. Whoever links with another linker sets KUBE_CANARY_ORDER=off.

use std::env;

fn main() {
    println!("cargo:rerun-if-env-changed=KUBE_CANARY_ORDER");
    println!("cargo:rerun-if-changed=deploy/hot.ld");
    let is = |name: &str, wanted: &str| env::var(name).is_ok_and(|value| value == wanted);
    // In a debug build nothing is small.
    if is("CARGO_CFG_TARGET_OS", "linux") && is("PROFILE", "release") && !is("KUBE_CANARY_ORDER", "off") {
        let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{root}/deploy/hot.ld");
    }
}
