//! Machines other than x86-64: no function is called.

use crate::remedy::Call;
use crate::{Done, Limits, Refusal, Remedy};

/// Refuses.
pub fn carry_out(pid: u32, _remedy: &Remedy, _calls: &[Call], _limits: Limits) -> Result<Done, Refusal> {
    let state = "this build is for another machine than x86-64, and only there a thread can be borrowed".into();
    Err(Refusal::State { pid, state, instead: "Have the program make the call itself" })
}

/// No process has a function that can be called.
pub fn has_function(_pid: u32, _remedy: &Remedy) -> bool {
    false
}
