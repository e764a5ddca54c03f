//! Targets outside of the mesh: the API server, an ingress, a name, a port. In: the targets of the flags. Out: whether each
//! answers, how quickly, and the errors, in the mesh's tallies.
//!
//! A check begins with the look-up of the name, like a program in the cluster. So it distinguishes a failing name server from a refused
//! port. There are few targets, and each has its own task. Nothing is kept between two checks, neither connections nor certificates.

mod check;
mod target;
#[cfg(feature = "kubernetes")]
mod tls;

pub use target::Target;

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::clock;
use crate::discovery::Resolver;
use crate::mesh::Shared;
use crate::tallies::{Outcome, TargetTally};

/// A target that takes longer than this counts as not answering.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Checks all targets as long as the current runtime lives.
pub fn start(targets: &[Target], interval: Duration, resolver: Result<Resolver, String>, mesh: &Shared) {
    for (place, target) in targets.iter().enumerate() {
        mesh.lock().tallies.targets.push(TargetTally::new(target.name()));
        tokio::spawn(watch(target.clone(), place, interval, resolver.clone(), mesh.clone()));
    }
}

async fn watch(target: Target, place: usize, interval: Duration, resolver: Result<Resolver, String>, mesh: Shared) {
    // All canaries of a cluster start at once. Without this wait they would ask at the same moments.
    let mut rng = allocanary_sys::rng::Rng::new(clock::now() ^ u64::from(std::process::id()) << 16 ^ place as u64);
    let span = |share: f64| interval.mul_f64(share);
    sleep(span(0.1 * (rng.next() % 10) as f64)).await;
    loop {
        let begun = clock::now();
        let outcome = timeout(PATIENCE, check::check(&target, &resolver)).await;
        let took = clock::now() - begun;
        let outcome =
            outcome.unwrap_or_else(|_| Err((Outcome::Timeout, format!("no answer within {} s", PATIENCE.as_secs()))));
        mesh.lock().tallies.targets[place].take(outcome, took);
        sleep(span(0.9 + 0.02 * (rng.next() % 10) as f64)).await;
    }
}
