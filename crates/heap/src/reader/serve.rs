//! The child's side: reads one request a line, and writes one answer a line, until the input ends.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use allocanary_process::child::WORD;
use allocanary_process::{Channel, confine, limits, serve_by};

use super::request::{ReadRequest, ReaderReply, ReadingSource, WireError};
use super::{CAN_SERVE, read_here};
use crate::ProcessTrouble;

/// If this program was started as such a child, returns its memory limit. Otherwise returns `None`; from then on, a
/// [`Reader`](super::Reader) can start this program as a child. Call it once, at the begin of `main`.
pub fn serves(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<u64> {
    if arguments.nth(1).is_none_or(|word| word != WORD) {
        CAN_SERVE.store(true, Ordering::Relaxed);
        return None;
    }
    arguments.next()?.to_str()?.parse().ok()
}

/// Serves requests until the command closes the connection. First sets the limits and gives up its rights. `other` answers the requests
/// that only this program understands. Returns the exit code.
pub fn serve(memory: u64, other: impl FnMut(&str) -> String) -> u8 {
    limits::limit_memory(memory);
    let may_keep_rights = std::env::var_os(confine::ALLOW).is_some_and(|value| value == "1");
    if confine::confine().is_err() && !may_keep_rights {
        return limits::NOT_CONFINED as u8;
    }
    let channel: &'static Mutex<Channel> = Box::leak(Box::default());
    serve_by(channel);
    let locked = || channel.lock().unwrap_or_else(PoisonError::into_inner);
    // An error here means that the command has ended, or has closed the connection.
    let _ = serve_here(|| locked().line(), |line| locked().tell(line), other);
    0
}

/// Answers requests until there are none. `next` returns a line, and `tell` takes one.
pub fn serve_here(
    mut next: impl FnMut() -> io::Result<Option<String>>,
    mut tell: impl FnMut(&str) -> io::Result<()>,
    mut other: impl FnMut(&str) -> String,
) -> io::Result<()> {
    tell("ready")?;
    while let Some(line) = next()? {
        let answer = match serde_json::from_str::<ReadRequest>(&line) {
            Ok(request) => {
                limits::end_after(Some(request.time_with_grace()));
                let answer = answer(&request, &mut other);
                limits::end_after(None);
                answer
            }
            Err(error) => ReaderReply::Trouble(WireError::Text(format!("wanted a request, found none: {error}"))),
        };
        tell(&serde_json::to_string(&answer)?)?;
    }
    Ok(())
}

fn answer(request: &ReadRequest, other: &mut impl FnMut(&str) -> String) -> ReaderReply {
    let read = || match &request.of {
        ReadingSource::Other(text, _) => ReaderReply::Other(other(text)),
        _ => match read_here(request) {
            Ok(reading) => ReaderReply::Reading(Box::new(reading)),
            Err(ProcessTrouble::Other { error, .. } | ProcessTrouble::Core { error, .. })
                if error.kind() == io::ErrorKind::OutOfMemory =>
            {
                ReaderReply::Memory
            }
            Err(trouble) => ReaderReply::Trouble((&trouble).into()),
        },
    };
    // A panic is a bug in allocanary. It must cost only one reading.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let error = std::io::Error::other(format!("a mistake in allocanary: {}", text.unwrap_or("it panicked")));
        match &request.of {
            ReadingSource::Process { pid, .. } => {
                ReaderReply::Trouble((&ProcessTrouble::of(*pid, "taking it apart", error)).into())
            }
            _ => ReaderReply::Trouble(WireError::Text(error.to_string())),
        }
    })
}
