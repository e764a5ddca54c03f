//! Puts the recorder into another process, and sends it requests.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::give_back::remedy::Argument;
use crate::give_back::{BorrowedCaller, Refusal, call_inside};
use allocanary_trace::request::{ATTACH, DETACH, LOOK_AGAIN, PatchRequest, Reply};

use crate::attach::{answer, check};

/// If a call waits longer than this for the loader's lock, it is abandoned.
const PATIENCE: Duration = Duration::from_secs(5);

/// The functions that the borrowed thread calls.
const CALLED: [&str; 3] = ["dlopen", "dlsym", "dlerror"];

/// What is recorded, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderRequest {
    /// The folder of the trace: an absolute path, in which the process may make a file.
    pub folder: PathBuf,
    /// The largest size of the trace in bytes.
    pub limit: u64,
    /// One block in this many is recorded.
    pub rate: u32,
    /// The stack of one allocation in this many is recorded; 0 for none.
    pub stacks: u32,
}

/// A process into which the recorder was put.
#[derive(Debug)]
pub struct AttachedRecorder {
    pid: u32,
    library: PathBuf,
}

impl AttachedRecorder {
    /// Puts the recorder into a process, and begins a recording.
    pub fn attach(pid: u32, library: &Path, asked: &RecorderRequest) -> Result<(AttachedRecorder, Reply), Refusal> {
        // The loader and the kernel know the library by its real path.
        let library = &library.canonicalize().map_err(|error| Refusal::of(pid, "finding the recorder", error))?;
        check(pid, library)?;
        let recorder = AttachedRecorder { pid, library: library.into() };
        let bytes = asked.folder.as_os_str().as_bytes();
        let mut folder = [0; 1024];
        let Some(place) = folder.get_mut(..bytes.len()).filter(|_| bytes.len() < 1024) else {
            let state = format!("the folder's path has {} bytes: wanted 1023 at most", bytes.len());
            return Err(Refusal::State { pid, state, instead: "Name another folder" });
        };
        place.copy_from_slice(bytes);
        let (act, length) = (ATTACH, bytes.len() as u32);
        let request = PatchRequest { act, rate: asked.rate, limit: asked.limit, stacks: asked.stacks, length, folder };
        let reply = recorder.ask(&request)?;
        Ok((recorder, reply))
    }

    /// A recorder that another command has put into a process.
    pub fn found(pid: u32, library: &Path) -> Result<AttachedRecorder, Refusal> {
        if !check::has(pid, library)? {
            let state = "there is no recorder of this installation in it".into();
            return Err(Refusal::State { pid, state, instead: "Nothing was changed" });
        }
        Ok(AttachedRecorder { pid, library: library.into() })
    }

    /// Changes the tables of libraries that were opened since the last call.
    pub fn look_again(&self) -> Result<Reply, Refusal> {
        self.ask(&PatchRequest { act: LOOK_AGAIN, ..PatchRequest::NONE })
    }

    /// Puts the tables back, and ends the trace. The library stays mapped.
    pub fn detach(&self) -> Result<Reply, Refusal> {
        self.ask(&PatchRequest { act: DETACH, ..PatchRequest::NONE })
    }

    /// Has a thread of the process carry out a request.
    fn ask(&self, request: &PatchRequest) -> Result<Reply, Refusal> {
        let reply = call_inside(self.pid, &CALLED, PATIENCE, |caller| self.asked(caller, request))?;
        match answer::problem(&reply) {
            None => Ok(reply),
            Some((state, instead)) => Err(Refusal::State { pid: self.pid, state, instead }),
        }
    }

    fn asked(&self, caller: &mut BorrowedCaller, request: &PatchRequest) -> Result<Reply, Refusal> {
        let text = |text: &str| Argument::Text(text.into());
        let path = self.library.to_string_lossy();
        let library = caller.call("dlopen", &[text(&path), Argument::Number(libc::RTLD_NOW as u64)])?;
        if library == 0 {
            let said = caller.call("dlerror", &[]).map(|at| said(caller, at)).unwrap_or_default();
            let state = format!("its loader did not open {path}: {said}");
            return Err(self.refused(state, "Install allocanary where the process may read it"));
        }
        let place = caller.call("dlsym", &[Argument::Number(library), text("allocanary_request")])?;
        if place == 0 {
            let state = format!("{path} is no recorder of this release");
            return Err(self.refused(state, "Install allocanary again"));
        }
        caller.write(place, &request.bytes())?;
        let reply = caller.call("dlsym", &[Argument::Number(library), text("allocanary_act")])?;
        let reply = if reply == 0 { None } else { Reply::of(&caller.read(reply, Reply::BYTES)?) };
        reply.ok_or_else(|| self.refused(format!("{path} gave no answer"), "Install allocanary again"))
    }

    fn refused(&self, state: String, instead: &'static str) -> Refusal {
        Refusal::State { pid: self.pid, state, instead }
    }
}

/// Reads a text of the process.
fn said(caller: &BorrowedCaller, at: u64) -> String {
    // A shorter read may succeed where the text lies near the end of a mapping.
    let bytes = [400, 64, 16].iter().find_map(|count| caller.read(at, *count).ok()).unwrap_or_default();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
