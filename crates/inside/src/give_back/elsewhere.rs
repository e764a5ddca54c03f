//! The functions for machines other than x86-64 and aarch64. They refuse every call.

use std::time::Duration;

use crate::give_back::remedy::{Argument, FunctionCall};
use crate::give_back::{GiveBackResult, Limits, Refusal, ReleaseCall};

/// Refuses, because this machine is neither x86-64 nor aarch64.
pub fn carry_out(
    pid: u32,
    _remedy: &ReleaseCall,
    _calls: &[FunctionCall],
    _limits: Limits,
) -> Result<GiveBackResult, Refusal> {
    let state =
        "this build is for another machine than x86-64 and aarch64, and only there a thread can be borrowed".into();
    Err(Refusal::State { pid, state, instead: "Have the program make the call itself" })
}

/// This type has no value, because no thread can be borrowed here.
pub enum BorrowedCaller {}

impl BorrowedCaller {
    /// Makes a call.
    pub fn call(&mut self, _name: &'static str, _arguments: &[Argument]) -> Result<u64, Refusal> {
        match *self {}
    }

    /// Reads memory of the process.
    pub fn read(&self, _at: u64, _count: usize) -> Result<Vec<u8>, Refusal> {
        match *self {}
    }

    /// Writes to memory of the process.
    pub fn write(&self, _at: u64, _bytes: &[u8]) -> Result<(), Refusal> {
        match *self {}
    }
}

/// Refuses, because this machine is neither x86-64 nor aarch64.
pub fn call_inside<T: Send>(
    pid: u32,
    _names: &[&'static str],
    _patience: Duration,
    _work: impl FnOnce(&mut BorrowedCaller) -> Result<T, Refusal> + Send,
) -> Result<T, Refusal> {
    let state =
        "this build is for another machine than x86-64 and aarch64, and only there a thread can be borrowed".into();
    Err(Refusal::State { pid, state, instead: "Record it from its start: `allocanary record -- PROGRAM`" })
}

/// Refuses, because this machine is neither x86-64 nor aarch64.
pub fn check(pid: u32, _remedy: &ReleaseCall) -> Result<Option<String>, Refusal> {
    let state =
        "this build is for another machine than x86-64 and aarch64, and only there a thread can be borrowed".into();
    Err(Refusal::State { pid, state, instead: "Have the program make the call itself" })
}

/// No process has a function that can be called.
pub fn has_function(_pid: u32, _remedy: &ReleaseCall) -> bool {
    false
}

/// No function is wanted, because no thread is borrowed.
pub fn is_for_borrowing(_name: &str) -> bool {
    false
}
