//! On other machines than x86-64 nothing is called.

use std::time::Duration;

use crate::remedy::Call;
use crate::{Done, Refusal, Remedy};

/// Refuses.
pub fn carry_out(pid: u32, _remedy: &Remedy, _calls: &[Call], _patience: Duration) -> Result<Done, Refusal> {
    let state = "this build is for another machine than x86-64, and only there a thread can be borrowed".into();
    Err(Refusal::State { pid, state, instead: "Have the program make the call itself" })
}
