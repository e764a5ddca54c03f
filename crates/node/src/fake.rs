//! A node in memory: processes that come, go and change between two counts, and who reads them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use allocanary_heap::counters::{AllocatorCounters, CounterPlace};
use allocanary_rows::fleet::{Part, Parts};
use allocanary_sys::proc::{ProcStatus, Stat};

use crate::look::{
    CounterReply, CounterTarget, HeapReader, HeapState, LookReply, LookRequest, NoProfile, ProcessIdentity,
};
use crate::world::{Charged, Quota, World};

pub const MIB: u64 = 1 << 20;
/// A process that may not be read.
pub const DENIED: u32 = 13;
/// A process that keeps whoever asks for its counters waiting.
pub const STUCK: u32 = 66;

/// A process of the test: its number, when it started, its program, anonymous MiB, its groups.
pub type FakeProcess = (u32, u64, u64, u64, String);

#[derive(Clone, Debug, Default)]
pub struct FakeWorld {
    all: Arc<Mutex<Vec<FakeProcess>>>,
    /// How the kernel hides others.
    pub hides_by: Option<String>,
}

impl FakeWorld {
    pub fn of(all: Vec<FakeProcess>) -> FakeWorld {
        FakeWorld { all: Arc::new(Mutex::new(all)), hides_by: None }
    }

    pub fn all(&self) -> std::sync::MutexGuard<'_, Vec<FakeProcess>> {
        self.all.lock().unwrap()
    }
}

pub fn process(pid: u32, start: u64, mib: u64) -> FakeProcess {
    (pid, start, 7, mib, format!("0::/kubepods/pod{0}/{1}\n", "0123456789abcdef".repeat(2), "ab".repeat(32)))
}

impl World for FakeWorld {
    fn pids(&self) -> Vec<u32> {
        self.all().iter().map(|one| one.0).collect()
    }

    fn stat(&self, pid: u32) -> Option<Stat> {
        let all = self.all();
        let (_, start, program, ..) = all.iter().find(|one| one.0 == pid)?;
        let text = format!(
            "{pid} (web) S 1 1 1 0 -1 0 0 0 0 0 5 6 7 8 20 0 1 0 {start} 1000 200 9 {program} 12 {program} 14 15"
        );
        Stat::parse(text.as_bytes())
    }

    fn status(&self, pid: u32) -> Option<ProcStatus> {
        let mib = self.all().iter().find(|one| one.0 == pid)?.3;
        Some(ProcStatus { resident: Some((mib + 1) * MIB), anonymous: Some(mib * MIB), ..ProcStatus::default() })
    }

    fn groups(&self, pid: u32) -> Option<String> {
        Some(self.all().iter().find(|one| one.0 == pid)?.4.clone())
    }

    fn group(&self, _: &str) -> Charged {
        Charged { anonymous: Some(5 * MIB), quota: Some(Quota::Milli(500)) }
    }

    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    fn hides_by(&self) -> Option<String> {
        self.hides_by.clone()
    }

    fn time(&self) -> u64 {
        1_000
    }

    fn booted(&self) -> u64 {
        500
    }

    fn boot(&self) -> String {
        "b".into()
    }
}

/// What is seen of a process with so many live bytes.
pub fn seen(live: u64) -> LookReply {
    let mut parts = Parts::default();
    parts.add(Part::Live, live);
    let place: CounterPlace = serde_json::from_str(r#"{"glibc":{"main":1,"bins":96,"mapped":null}}"#).unwrap();
    let identity = ProcessIdentity { allocator: "glibc".into(), places: vec![place], ..ProcessIdentity::default() };
    let heap = Some(HeapState { parts, ..HeapState::default() });
    LookReply { identity, counters: Some(vec![counters()]), heap, problem: String::new() }
}

fn counters() -> AllocatorCounters {
    AllocatorCounters { arenas: 8, mapped: Some(MIB), mmapped: Some(0), ..AllocatorCounters::default() }
}

/// What is seen of a process.
type Looks = dyn FnMut(u32) -> Result<LookReply, String>;

/// Reads whatever the test says. Counters come of all but those that are denied or stuck.
#[derive(Default)]
pub struct Reads {
    /// How often counters were asked for, each time of how many processes.
    pub asked: Vec<usize>,
    /// What is called with each process whose heap is read.
    pub look: Option<Box<Looks>>,
    /// What is called with each process whose profile is read. Without it none has one.
    pub profile: Option<Box<dyn FnMut(u32) -> Vec<u8>>>,
    /// What is called before counters are read.
    pub before: Option<Box<dyn FnMut()>>,
}

impl HeapReader for Reads {
    fn look(&mut self, wanted: &LookRequest) -> Result<LookReply, String> {
        self.look.as_mut().map_or_else(|| Ok(seen(MIB)), |look| look(wanted.pid))
    }

    fn count(&mut self, wanted: &[CounterTarget], _: Duration) -> Result<Vec<CounterReply>, String> {
        self.asked.push(wanted.len());
        self.before.iter_mut().for_each(|before| before());
        let counted = |one: &CounterTarget| match one.pid {
            STUCK => Err("reading it took more than 2 s".to_string()),
            DENIED => Ok(CounterReply { may_read: Some(false), counters: None }),
            _ => Ok(CounterReply {
                may_read: Some(true),
                counters: Some(one.places.iter().map(|_| counters()).collect()),
            }),
        };
        wanted.iter().map(counted).collect()
    }

    fn profile(&mut self, pid: u32) -> Result<Vec<u8>, NoProfile> {
        let read = self.profile.as_mut().map(|profile| profile(pid));
        read.ok_or_else(|| NoProfile::None(format!("process {pid} has no profile")))
    }
}
