//! Whether the canary is ready. In: the mesh and the time since its start. Out: ready, or the reason why not.

use std::time::Duration;

use crate::mesh::Mesh;

/// Ready once the peers are known and each was probed once. If a source says that there are none, this is an answer as well: a cluster of
/// one node must not wait for ever.
pub(super) fn ready(mesh: &Mesh, running: Duration, interval: Duration) -> Result<(), String> {
    let answered = mesh.tallies.sources.values().any(|source| source.succeeded > 0);
    if !answered && mesh.entries().next().is_none() {
        let problems = mesh
            .tallies
            .sources
            .iter()
            .filter_map(|(name, source)| source.problem.as_ref().map(|problem| format!("{name}: {problem}")));
        let problems = problems.collect::<Vec<_>>().join("; ");
        return Err(if problems.is_empty() {
            "no peers are known yet".into()
        } else {
            format!("no peers are known yet: {problems}")
        });
    }
    if running < interval {
        return Err("the first interval has not passed yet".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Bounds;
    use crate::peer::Peer;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ready_once_peers_are_known_and_an_interval_passed() {
        let mut mesh = Mesh::new(Bounds::default(), 0, 10, "a");
        assert_eq!(ready(&mesh, SECOND, SECOND), Err("no peers are known yet".into()));
        let source = mesh.tallies.sources.entry("dns").or_default();
        source.failed = 1;
        source.problem = Some("no such name: canary".into());
        assert_eq!(ready(&mesh, SECOND, SECOND), Err("no peers are known yet: dns: no such name: canary".into()));
        mesh.tallies.sources.entry("dns").or_default().succeeded = 1;
        assert_eq!(ready(&mesh, SECOND, SECOND), Ok(()), "alone in its cluster");
        mesh.tallies.sources.clear();
        mesh.update("flags", vec![Peer::on([10, 0, 0, 1].into(), "b")], 0);
        assert!(ready(&mesh, SECOND / 2, SECOND).is_err());
        assert_eq!(ready(&mesh, SECOND, SECOND), Ok(()));
    }
}
