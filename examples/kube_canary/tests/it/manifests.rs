//! The manifests, rendered by kustomize. In: the folders of `deploy`. Out: whether each renders, and gives the canary only flags that
//! it knows.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::canary::{command, ended_within};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");

/// The output of `kubectl kustomize` for a folder; `None`, with a message, if kubectl is not installed.
fn rendered(folder: &str) -> Option<String> {
    let out = match Command::new("kubectl").arg("kustomize").arg(format!("{DEPLOY}/{folder}")).output() {
        Ok(out) => out,
        Err(error) => {
            allocanary_testing::skipped::skipped(format_args!("kubectl is not installed ({error})"));
            return None;
        }
    };
    assert!(out.status.success(), "{folder}: {}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).unwrap())
}

/// The flags of the canary's container.
pub fn flags(manifests: &str) -> Vec<String> {
    let lines =
        manifests.lines().skip_while(|line| line.trim().trim_start_matches("- ") != "args:").skip(1).map(str::trim);
    lines.map_while(|line| line.strip_prefix("- --")).map(|flag| format!("--{flag}")).collect()
}

#[test]
fn every_overlay_bounds_its_peers_probes_by_udp_and_has_flags_that_the_canary_takes() {
    for folder in ["base", "overlays/kubernetes", "overlays/full", "overlays/hostnetwork"] {
        let Some(manifests) = rendered(folder) else { return };
        let flags = flags(&manifests);
        assert!(flags.iter().any(|flag| flag == "--peers-max=32"), "{folder}: {flags:?}");
        let protocols = flags.iter().find_map(|flag| flag.strip_prefix("--protocol=")).unwrap();
        // A dead canary's kernel still answers ICMP, so another protocol is needed.
        assert!(protocols.split(',').any(|protocol| protocol == "udp"), "{folder}: {protocols}");
        let in_host = manifests.contains("hostNetwork: true");
        assert_eq!(in_host, folder.ends_with("hostnetwork"));
        // Kubernetes refuses a pod that sets sysctls of the node's network. Without these sysctls ICMP may not be
        // permitted.
        assert_eq!(in_host, !manifests.contains("ping_group_range"), "{folder}");
        assert_eq!(in_host, protocols == "udp", "{folder}");
        assert_eq!(manifests.contains("priorityClassName: kube-canary"), folder.ends_with("full"));
        // An unknown flag ends the canary with 2. If it knows all flags, it ends with 1, because this host does not
        // have the address of `--listen`.
        let taken = flags.iter().map(|flag| flag.replace("$(POD_NAMESPACE)", "default"));
        let mut child = command(&["--listen=192.0.2.1:1"]).args(taken).stderr(Stdio::null()).spawn().unwrap();
        let status = ended_within(&mut child, Duration::from_secs(60)).unwrap_or_else(|| {
            let _ = child.kill();
            panic!("{folder}: {flags:?} did not end")
        });
        assert_eq!(status.code(), Some(1), "{folder}: {flags:?}");
    }
}
