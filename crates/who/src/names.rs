//! Names of return addresses. In: stacks with their modules. Out: frames: function, file, line, module. Inlined functions have a frame
//! each, names are demangled. Files are read from this machine only, and only those of the very build that was recorded.

mod file;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use allocanary_kernel::terminal::harmless;
use allocanary_trace::stacks::{Module, StackId, Stacks};

use crate::fold::are_allocators;
use crate::frame::Frame;
use file::Symbols;

/// Where distributions put debug files.
const DEBUG: &str = "/usr/lib/debug";

/// The names of a trace's frames.
pub struct Names<'a> {
    stacks: &'a Stacks,
    debug: PathBuf,
    /// Of each module that a frame has been looked for in.
    files: HashMap<usize, Symbols>,
    known: HashMap<u64, Rc<[Frame]>>,
    notes: Vec<String>,
}

impl<'a> Names<'a> {
    /// The names of these stacks.
    pub fn of(stacks: &'a Stacks) -> Names<'a> {
        Names::with(stacks, Path::new(DEBUG))
    }

    /// As [`of`](Names::of), with debug files in another folder.
    pub fn with(stacks: &'a Stacks, debug: &Path) -> Names<'a> {
        Names { stacks, debug: debug.into(), files: HashMap::new(), known: HashMap::new(), notes: Vec::new() }
    }

    /// The frames of a stack, innermost first.
    pub fn stack(&mut self, stack: StackId) -> Vec<Frame> {
        let stacks = self.stacks;
        stacks.frames(stack).flat_map(|pc| self.frames(pc).to_vec()).collect()
    }

    /// The return addresses of a stack from the caller of the allocator on. All of them, if there is no other.
    pub fn callers(&mut self, stack: StackId) -> Vec<u64> {
        let all: Vec<u64> = self.stacks.frames(stack).collect();
        let first = all.iter().position(|pc| !are_allocators(&self.frames(*pc))).unwrap_or(0);
        all[first..].to_vec()
    }

    /// The frames of a return address, innermost first: the inlined ones, and the function.
    pub fn frames(&mut self, pc: u64) -> Rc<[Frame]> {
        if let Some(known) = self.known.get(&pc) {
            return known.clone();
        }
        let frames: Rc<[Frame]> = self.look_up(pc).into();
        self.known.insert(pc, frames.clone());
        frames
    }

    /// What could not be used, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn look_up(&mut self, pc: u64) -> Vec<Frame> {
        // The call is before the address to which it returns, which may be in the next function.
        let call = pc.saturating_sub(1);
        let contains = |module: &Module| (module.start..module.end).contains(&call);
        let Some(at) = self.stacks.modules.iter().rposition(contains) else {
            return vec![Frame { function: format!("{pc:#x}"), ..Frame::default() }];
        };
        let module = &self.stacks.modules[at];
        let (debug, notes) = (&self.debug, &mut self.notes);
        let symbols = self.files.entry(at).or_insert_with(|| {
            let (symbols, note) = Symbols::of(module, debug);
            notes.extend(note.map(|note| harmless(&note).into_owned()));
            symbols
        });
        let name = file_name(&module.path);
        let address = call.wrapping_sub(module.bias);
        let mut frames = symbols.frames(address);
        let clean = |text: &str| harmless(text).into_owned();
        for frame in &mut frames {
            (frame.module, frame.file) = (clean(name), clean(&frame.file));
            frame.function = clean(&frame.function);
            if !frame.is_named {
                frame.function = format!("{}+{:#x}", frame.module, pc.wrapping_sub(module.bias));
            }
        }
        frames
    }
}

/// The last part of a path, without the mark of a file that was removed.
fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
