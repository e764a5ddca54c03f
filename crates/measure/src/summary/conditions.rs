//! The properties of a host that affect the result. Hosts that differ in one of them are never pooled into one figure.
//! In: a host from its rows. Out: a key, and texts that name the differences.

use std::collections::BTreeSet;

use allocanary_rows::provenance::Provenance;
use allocanary_sys::host::Host;
use allocanary_text::units::Unit;

/// Hosts with equal conditions are one kind of host. Names do not count: the nodes of a fleet are one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conditions {
    cores: u32,
    affinity: u32,
    parallelism: u32,
    /// Rounded to the nearest power of two, because the kernel reserves a different part of it at each boot.
    memory_bytes: u64,
    page_bytes: u64,
    thp: String,
    kernel: String,
    cpu: String,
}

impl Conditions {
    /// The conditions of a host.
    pub fn of(host: &Host) -> Self {
        Conditions {
            cores: host.cores,
            affinity: host.affinity,
            parallelism: host.parallelism,
            memory_bytes: about(host.memory_bytes),
            page_bytes: host.page_bytes,
            thp: host.thp.clone(),
            kernel: host.kernel.clone(),
            cpu: host.cpu.clone(),
        }
    }

    /// Each condition in words.
    fn facts(&self) -> [String; 8] {
        let bytes = |bytes: u64| Unit::Bytes.show(bytes as f64);
        [
            format!("{} cores", self.cores),
            format!("{} cores allowed", self.affinity),
            format!("CPU time for {} threads", self.parallelism),
            format!("about {} of memory", bytes(self.memory_bytes)),
            format!("pages of {}", bytes(self.page_bytes)),
            format!("THP {}", self.thp),
            format!("Linux {}", self.kernel),
            self.cpu.clone(),
        ]
    }
}

fn about(bytes: u64) -> u64 {
    2_f64.powf((bytes.max(1) as f64).log2().round()) as u64
}

/// A property that distinguishes hosts or builds: its name, and a function that returns its value.
type Fact = (&'static str, fn(&Provenance) -> String);

const FACTS: [Fact; 14] = [
    ("host", |of| of.host.name.clone()),
    ("cores", |of| of.host.cores.to_string()),
    ("cores allowed", |of| of.host.affinity.to_string()),
    ("CPU time in threads", |of| of.host.parallelism.to_string()),
    ("memory", |of| Unit::Bytes.show(about(of.host.memory_bytes) as f64)),
    ("page", |of| Unit::Bytes.show(of.host.page_bytes as f64)),
    ("THP", |of| of.host.thp.clone()),
    ("kernel", |of| of.host.kernel.clone()),
    ("processor", |of| of.host.cpu.clone()),
    ("package", |of| format!("{} {}", of.build.package, of.build.version)),
    ("revision", |of| of.build.revision.clone()),
    ("profile", |of| of.build.profile.clone()),
    ("compiler", |of| of.build.rustc.clone()),
    ("target", |of| of.build.target.clone()),
];

/// The differences of two sets of rows in hosts and builds, one line each: `THP: madvise in the old, always in the
/// new`.
pub fn differences(old: &[Provenance], new: &[Provenance]) -> Vec<String> {
    let values = |all: &[Provenance], fact: &Fact| all.iter().map(fact.1).collect::<BTreeSet<String>>();
    let joined = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(" and ");
    let line = |fact: &Fact| {
        let (old, new) = (values(old, fact), values(new, fact));
        (old != new).then(|| format!("{}: {} in the old, {} in the new", fact.0, joined(&old), joined(&new)))
    };
    FACTS.iter().filter_map(line).collect()
}

/// For each host, its values of the conditions that differ among the hosts: `64 cores, THP always`.
pub fn differing(hosts: &[&Conditions]) -> Vec<String> {
    let facts: Vec<[String; 8]> = hosts.iter().map(|host| host.facts()).collect();
    let differs = |at: &usize| facts.iter().any(|host| host[*at] != facts[0][*at]);
    // Affinity and parallelism follow the number of cores, and are named only if something limits them.
    let follows = hosts.iter().all(|host| host.cores == host.affinity && host.affinity == host.parallelism);
    let shown: Vec<usize> = (0..8).filter(|at| !(follows && [1, 2].contains(at))).filter(differs).collect();
    facts.iter().map(|host| shown.iter().map(|at| host[*at].as_str()).collect::<Vec<_>>().join(", ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_memory_that_wavers_is_one() {
        let host = Host {
            name: "a".into(),
            kernel: "6.1.0".into(),
            cpu: "Example".into(),
            cores: 8,
            affinity: 8,
            parallelism: 8,
            memory_bytes: 16_700_000_000,
            page_bytes: 4096,
            thp: "madvise".into(),
        };
        let same = Host { name: "b".into(), memory_bytes: 16_690_000_000, ..host.clone() };
        assert_eq!(Conditions::of(&host), Conditions::of(&same), "a machine started again, or one like it");
        let other = Host { thp: "always".into(), cores: 64, affinity: 64, parallelism: 64, ..host.clone() };
        let named = |others: &[&Host]| {
            let all: Vec<Conditions> = others.iter().map(|host| Conditions::of(host)).collect();
            differing(&all.iter().collect::<Vec<_>>())
        };
        assert_eq!(named(&[&host, &other]), ["8 cores, THP madvise", "64 cores, THP always"]);
        let limited = Host { affinity: 2, parallelism: 2, ..host.clone() };
        let wanted = ["8 cores allowed, CPU time for 8 threads", "2 cores allowed, CPU time for 2 threads"];
        assert_eq!(named(&[&host, &limited]), wanted);
        assert_eq!(named(&[&host, &same]), ["", ""]);
    }
}
