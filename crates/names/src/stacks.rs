//! Names the return addresses of stacks. Each gets frames with function, file, line and module: inlined functions have their own frames,
//! and names are demangled. Only files of this machine are read, and only if they are of the recorded build. The perf map of the trace
//! names code that is in no file.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use allocanary_text::outside::harmless;
use allocanary_trace::stacks::{CodePlace, StackId, Stacks};

use crate::debug;
use crate::file::Symbols;
use crate::frame::NamedFrame;
use crate::perf_map::{self, PerfMap};
use crate::sources::{OfProcess, OfTrace, Sources};

/// The folder where distributions put debug files.
const DEBUG: &str = "/usr/lib/debug";

/// The names of a trace's frames.
pub struct FrameNames<'a> {
    stacks: &'a Stacks,
    sources: From<'a>,
    /// How many bytes of debug information may still be read.
    left: u64,
    /// The symbols of each module in which a frame has been looked up.
    files: HashMap<usize, Symbols>,
    /// The names of code that is in no file.
    map: Option<PerfMap>,
    known: HashMap<CodePlace, Rc<[NamedFrame]>>,
    notes: Vec<String>,
    /// Whether no frame gets a name.
    is_nameless: bool,
    /// Stacks with code that is in no file: first those where it has a name, then those where it has none.
    made: [HashSet<StackId>; 2],
}

/// The files that names come from.
enum From<'a> {
    Trace(OfTrace),
    Process(&'a OfProcess),
}

impl From<'_> {
    fn get(&self) -> &dyn Sources {
        match self {
            From::Trace(files) => files,
            From::Process(files) => *files,
        }
    }
}

impl<'a> FrameNames<'a> {
    /// The names of a trace's stacks, by the files of this host.
    pub fn of(stacks: &'a Stacks) -> FrameNames<'a> {
        FrameNames::with(stacks, Path::new(DEBUG))
    }

    /// As [`of`](FrameNames::of), with debug files in another folder.
    pub fn with(stacks: &'a Stacks, debug: &Path) -> FrameNames<'a> {
        FrameNames::from(stacks, From::Trace(OfTrace { debug: debug.into() }))
    }

    /// The names of a process's stacks, by the files that it has mapped.
    pub fn of_process(stacks: &'a Stacks, files: &'a OfProcess) -> FrameNames<'a> {
        FrameNames::from(stacks, From::Process(files))
    }

    fn from(stacks: &'a Stacks, sources: From<'a>) -> FrameNames<'a> {
        let (files, known, made) = Default::default();
        let (left, map, notes) = (debug::MOST, None, Vec::new());
        FrameNames { stacks, sources, left, files, map, known, notes, is_nameless: false, made }
    }

    /// Gives no names and opens no file, for output whose reader has the files.
    pub fn none(stacks: &'a Stacks) -> FrameNames<'a> {
        FrameNames { is_nameless: true, ..FrameNames::of(stacks) }
    }

    /// Leaves out lines and inlined functions, because debug information is large.
    pub fn without_debug(self) -> FrameNames<'a> {
        FrameNames { left: 0, ..self }
    }

    /// Whether no frame gets a name.
    pub fn is_nameless(&self) -> bool {
        self.is_nameless
    }

    /// Adds the perf map next to this trace.
    pub fn with_map_of(mut self, trace: &Path) -> FrameNames<'a> {
        match PerfMap::of(trace) {
            Ok(map) => self.map = map,
            Err(note) => self.notes.push(harmless(&note).into_owned()),
        }
        self
    }

    /// The frames of a stack, innermost first.
    pub fn stack(&mut self, stack: StackId) -> Vec<NamedFrame> {
        let stacks = self.stacks;
        let frames: Vec<NamedFrame> = stacks.frames(stack).flat_map(|code| self.frames(code).to_vec()).collect();
        for (is_named, made) in [true, false].into_iter().zip(&mut self.made) {
            if frames.iter().any(|frame| is_made(frame) && frame.is_named() == is_named) {
                made.insert(stack);
            }
        }
        frames
    }

    /// The number of outermost frames that belong to the code at which the walk ended, because the file has no unwinding table for this
    /// code or because the code is in no file. 0 if the stack ends for another reason.
    pub fn ended(&mut self, stack: StackId) -> usize {
        let Some(last) = self.stacks.frames(stack).last() else { return 0 };
        let frames = self.frames(last);
        let is_without = match self.stacks.module_of(last) {
            None => true,
            Some(at) => {
                let address = last.pc.saturating_sub(1).wrapping_sub(self.stacks.modules[at].bias);
                self.files.get_mut(&at).is_some_and(|symbols| symbols.is_without_table(address))
            }
        };
        if is_without { frames.len() } else { 0 }
    }

    /// The return addresses of a stack, innermost first.
    pub fn codes(&self, stack: StackId) -> Vec<CodePlace> {
        self.stacks.frames(stack).collect()
    }

    /// The frames of a return address, innermost first: the inlined functions, then the function itself. Empty if no frame gets a name.
    pub fn frames(&mut self, code: CodePlace) -> Rc<[NamedFrame]> {
        if self.is_nameless {
            return Rc::new([]);
        }
        if let Some(known) = self.known.get(&code) {
            return known.clone();
        }
        let frames: Rc<[NamedFrame]> = self.look_up(code).into();
        self.known.insert(code, frames.clone());
        frames
    }

    /// All frames that have been looked up.
    pub fn seen(&self) -> impl Iterator<Item = &NamedFrame> {
        self.known.values().flat_map(|frames| frames.iter())
    }

    /// The files that could not be used and the code that could not be named, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        let [named, nameless] = self.made.each_ref().map(HashSet::len);
        let is_python = || self.stacks.modules.iter().any(|module| makes_maps(file_name(&module.path)));
        if nameless > 0 {
            let why = if self.map.is_some() { "its perf map does not name" } else { "no perf map names" };
            let stacks = if nameless == 1 { "1 stack passes".into() } else { format!("{nameless} stacks pass") };
            notes.push(format!(
                "{stacks} through code that is in no file and that {why}: if a runtime has made it, record with PYTHONPERFSUPPORT=1 \
                 (Python 3.12 or later) or node --perf-basic-prof."
            ));
        } else if named == 0 && is_python() {
            notes.push("The functions of Python are not named: record with PYTHONPERFSUPPORT=1.".into());
        }
        notes
    }

    fn look_up(&mut self, code: CodePlace) -> Vec<NamedFrame> {
        // The call is before the address to which it returns, which may be in the next function.
        let (pc, call) = (code.pc, code.pc.saturating_sub(1));
        let Some(at) = self.stacks.module_of(code) else {
            let Some(name) = self.map.as_ref().and_then(|map| map.find(call)) else {
                return vec![NamedFrame { function: format!("{pc:#x}"), ..NamedFrame::default() }];
            };
            let frame = perf_map::frame(&harmless(name));
            return vec![frame];
        };
        let module = &self.stacks.modules[at];
        let (sources, left, notes) = (self.sources.get(), &mut self.left, &mut self.notes);
        let symbols = self.files.entry(at).or_insert_with(|| {
            let (symbols, found) = Symbols::of(module, sources, left);
            notes.extend(found.iter().map(|note| harmless(note).into_owned()));
            symbols
        });
        let name = file_name(&module.path);
        let address = call.wrapping_sub(module.bias);
        let mut frames = symbols.frames(address);
        let clean = |text: &str| harmless(text).into_owned();
        let build_id: Arc<str> = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
        for frame in &mut frames {
            (frame.module, frame.file, frame.build_id) = (clean(name), clean(&frame.file), build_id.clone());
            frame.function = clean(&frame.function);
            if let Some(identity) = frame.identity.as_mut().map(Arc::make_mut) {
                (identity.path, identity.file) = (clean(&identity.path), clean(&identity.file));
            }
            if !frame.is_named() {
                frame.function = format!("{}+{:#x}", frame.module, pc.wrapping_sub(module.bias));
            }
        }
        frames
    }
}

/// Whether a frame is of code that is in no file.
fn is_made(frame: &NamedFrame) -> bool {
    frame.module.is_empty() || frame.module.starts_with('[')
}

/// Whether a file is a Python that can write a perf map: `libpython3.12.so.1.0`, `python3.13`.
fn makes_maps(file: &str) -> bool {
    let version = file.trim_start_matches("lib").strip_prefix("python3.").unwrap_or_default();
    let digits = version.find(|letter: char| !letter.is_ascii_digit()).map_or(version, |end| &version[..end]);
    digits.parse().is_ok_and(|minor: u32| minor >= 12)
}

/// The last part of a path, without the kernel's note that the file was removed.
fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
