//! The symbols of one file. In: a module, the folder with debug files. Out: frames of addresses, and a remark if the file is not used.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::gimli::ReaderOffset;
use addr2line::{Loader, demangle_auto};
use allocanary_trace::stacks::Module;
use object::{Object, ObjectSymbol, ReadCache, SymbolKind};

use super::Frame;
use super::scopes::Scopes;
use super::unwinding;
use crate::frame::Identity;

/// The symbols and lines of a file's code.
#[derive(Default)]
pub(super) struct Symbols {
    lines: Option<Loader>,
    /// The scopes of the same file's functions.
    scopes: Option<Scopes>,
    /// Functions by their addresses, sorted.
    functions: Vec<Function>,
    /// The recorded file, and the addresses that its unwinding tables cover, once they were read.
    file: Option<PathBuf>,
    unwound: Option<Vec<Range<u64>>>,
}

/// A function of the table of symbols.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    address: u64,
    size: u64,
    name: String,
    /// The source file of a local function (`static`); else empty.
    source: String,
}

impl Symbols {
    /// Reads the file of a module and its debug file, if they are of its build.
    pub(super) fn of(module: &Module, debug: &Path) -> (Symbols, Option<String>) {
        let mut out = Symbols::default();
        let mut note = None;
        let path = module.path.strip_suffix(" (deleted)").unwrap_or(&module.path);
        // Other modules have no file: `[vdso]`, or code that a program makes while it runs.
        if path.starts_with('/') {
            match build_id(Path::new(path)) {
                Ok(found) if found == module.build_id && !found.is_empty() => {
                    out.add(Path::new(path));
                    out.file = Some(path.into());
                }
                Ok(found) if found == module.build_id => {
                    note =
                        Some(format!("{path} has no build-id: whether it is the file that was recorded is not known"));
                    out.add(Path::new(path));
                }
                Ok(found) => {
                    let (found, wanted) = (hex(&found), hex(&module.build_id));
                    note = Some(format!(
                        "{path} is not the file that was recorded: wanted build-id {wanted}, found {found}; its names are not used"
                    ));
                }
                Err(error) => note = Some(format!("{path}: {error}; its names are not known")),
            }
        }
        if let Some(file) = debug_file(debug, &module.build_id)
            && build_id(&file).is_ok_and(|found| found == module.build_id)
        {
            out.add(&file);
        }
        out.functions.sort_unstable();
        out.functions.dedup_by_key(|function| function.address);
        (out, note)
    }

    fn add(&mut self, file: &Path) {
        if let Ok(functions) = functions(file) {
            self.functions.extend(functions);
        }
        // A file without lines has a loader too. The loader of the debug file takes precedence.
        if let Ok(lines) = Loader::new(file)
            && (self.lines.is_none() || has_entries(&lines))
        {
            self.scopes = if has_entries(&lines) { Scopes::of(file) } else { None };
            self.lines = Some(lines);
        }
    }

    /// The frames at an address of the file, innermost first. At least one.
    pub(super) fn frames(&mut self, address: u64) -> Vec<Frame> {
        let mut out: Vec<Frame> = Vec::new();
        let scopes = &mut self.scopes;
        if let Some(mut frames) = self.lines.as_ref().and_then(|lines| lines.find_frames(address).ok()) {
            while let Ok(Some(frame)) = frames.next() {
                let location = frame.location.as_ref();
                let entry = frame.dw_die_offset.map(|entry| entry.0.into_u64() as usize);
                let mut identity = entry.zip(scopes.as_mut()).and_then(|(entry, scopes)| scopes.find(address, entry));
                // Debug information with lines only has no declarations, no scopes and no linkage names.
                if let Some(identity) = identity.as_mut().filter(|identity| identity.line == 0) {
                    identity.file = location.and_then(|location| location.file).unwrap_or_default().into();
                }
                let name = frame.function.as_ref().and_then(|name| {
                    let (raw, whole) = (name.raw_name().ok()?, name.demangle().ok()?);
                    // A name that is not mangled has no scope.
                    let path = identity.as_ref().filter(|_| raw == whole).map(|identity| identity.path.clone());
                    Some(path.unwrap_or_else(|| without_hash(&whole).into()))
                });
                out.push(Frame {
                    is_named: name.is_some(),
                    function: name.unwrap_or_default(),
                    file: location.and_then(|location| location.file).unwrap_or_default().into(),
                    line: location.and_then(|location| location.line).unwrap_or(0),
                    module: String::new(),
                    identity: identity.map(Arc::new),
                });
            }
        }
        if out.is_empty() {
            out.push(Frame::default());
        }
        // The outermost one is the function of the symbol.
        let is_short = |frame: &Frame| frame.identity.as_ref().is_none_or(|identity| identity.line == 0);
        if let Some(last) = out.last_mut().filter(|last| !last.is_named || is_short(last))
            && let Some(function) = self.function(address)
        {
            let name = demangle_auto((&function.name).into(), None);
            (last.function, last.is_named) = (without_hash(&name).into(), true);
            let (path, file) = (name.into_owned(), function.source.clone());
            last.identity = Some(Arc::new(Identity { path, file, address: function.address, ..Identity::default() }));
        }
        out
    }

    /// Whether the file has no unwinding table for an address, so that a stack ends there. False if the tables cannot be
    /// read.
    pub(super) fn is_without_table(&mut self, address: u64) -> bool {
        let Some(file) = &self.file else { return false };
        let ranges = self.unwound.get_or_insert_with(|| unwinding::ranges(file).unwrap_or_default());
        let behind = ranges.partition_point(|range| range.start <= address);
        !ranges.is_empty() && behind.checked_sub(1).is_none_or(|at| !ranges[at].contains(&address))
    }

    /// The function that contains the address. A symbol of unknown size, or one that ends before the address, is not taken: a
    /// stripped file lacks most symbols.
    fn function(&self, address: u64) -> Option<&Function> {
        let behind = self.functions.partition_point(|function| function.address <= address);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        (address - function.address < function.size).then_some(function)
    }
}

/// Whether a file has debug entries of functions, and not only symbols.
fn has_entries(lines: &Loader) -> bool {
    lines.get_section_range(b".debug_info").is_some()
}

/// The functions with a symbol in a file, including those with only a dynamic symbol.
fn functions(file: &Path) -> Result<Vec<Function>, object::Error> {
    let Ok(file) = File::open(file) else { return Ok(Vec::new()) };
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache)?;
    let mut out = Vec::new();
    // Local symbols come after the symbol of their source file.
    let mut source = String::new();
    for symbol in object.symbols().chain(object.dynamic_symbols()) {
        let Ok(name) = symbol.name() else { continue };
        if symbol.kind() == SymbolKind::File {
            source = name.into();
        }
        if symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0 {
            let source = if symbol.is_local() { source.clone() } else { String::new() };
            out.push(Function { address: symbol.address(), size: symbol.size(), name: name.into(), source });
        }
    }
    Ok(out)
}

/// The build-id of a file; empty if it has none.
fn build_id(path: &Path) -> Result<Vec<u8>, String> {
    // A trace may name a device, or a pipe without a writer, which would never end.
    let is_file = std::fs::metadata(path).map_err(|error| error.to_string())?.is_file();
    if !is_file {
        return Err("it is no regular file".into());
    }
    let cache = ReadCache::new(File::open(path).map_err(|error| error.to_string())?);
    let object = object::File::parse(&cache).map_err(|error| error.to_string())?;
    Ok(object.build_id().ok().flatten().unwrap_or_default().to_vec())
}

/// The path of the debug file of a build.
pub(super) fn debug_file(folder: &Path, build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    Some(folder.join(format!(".build-id/{first:02x}/{}.debug", hex(rest))))
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() { "none".into() } else { bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
}

/// A name without the hash at the end of Rust's older names.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    }
}
