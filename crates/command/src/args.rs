//! The flags of the verbs, one file for each verb, and flags that several verbs share. In: what clap has parsed. Out:
//! plain values.

// Comments of flags are help texts. In them `[program]` means a table of a file and is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

mod build;
mod compare;
mod completions;
mod doctor;
mod door;
pub mod examples;
mod fleet;
mod give_back;
mod heap;
mod http;
mod kube;
mod list;
mod man;
mod measure;
mod output;
mod preload;
mod program;
mod report;
mod study;
mod traces;
mod trial;
mod tune;
pub mod values;
mod who;

pub use build::BuildFlags;
pub use compare::CompareFlags;
pub use completions::{CompletionsFlags, GlossaryFlags};
pub use doctor::DoctorFlags;
pub use door::DoorFlags;
pub use fleet::{AgentTrust, FleetFlags, NodeAuth, NodeFlags};
pub use give_back::GiveBackFlags;
pub use heap::HeapFlags;
pub use kube::{KubeAction, KubeFlags};
pub use list::ListFlags;
pub use man::ManFlags;
pub use measure::{HereFlags, RunFlags};
pub use output::{OutputFlags, TableFlags};
pub use preload::PreloadFlags;
pub use program::ProgramStudyFlags;
pub use report::ReportFlags;
pub use study::{StudyFlags, StudyRunFlags};
pub use traces::{PaceFlags, RecordFlags, ReplayFlags, TraceFlags};
pub use trial::TryFlags;
pub use tune::TuneFlags;
pub use who::WhoFlags;
