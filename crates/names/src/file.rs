//! The symbols of one module's files: the frames at an address, and remarks on files that are not used.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use addr2line::gimli::ReaderOffset;
use allocanary_process::Opened;
use allocanary_process::elf::{self, Elf, ReadRef, SymbolKind, SymbolSection};
use allocanary_trace::stacks::TraceModule;

use crate::debug::Debug;
use crate::frame::{FunctionId, NameSource, NamedFrame};
use crate::mangled::demangled;
use crate::sources::Sources;
use crate::{packed, unwinding};

/// The symbols and lines of a file's code.
#[derive(Default)]
pub(crate) struct Symbols {
    debug: Option<Debug>,
    /// Functions by their addresses, sorted.
    functions: Vec<Function>,
    /// The recorded file, and the addresses that its unwinding tables cover, once these were read.
    file: Option<Rc<Opened>>,
    unwound: Option<Vec<Range<u64>>>,
}

/// A function of the table of symbols.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    address: u64,
    size: u64,
    table: NameSource,
    name: String,
    /// The source file of a local function (`static`); else empty.
    source: String,
}

impl Symbols {
    /// Reads the file of a module and its debug file, if they are of its build. `left` is how many bytes of debug
    /// information may be read.
    pub(crate) fn of(module: &TraceModule, sources: &dyn Sources, left: &mut u64) -> (Symbols, Vec<String>) {
        let (mut out, mut notes) = (Symbols::default(), Vec::new());
        let path = module.path.strip_suffix(" (deleted)").unwrap_or(&module.path);
        // Other modules have no file: `[vdso]`, or code that a program makes while it runs.
        if path.starts_with('/') {
            let found = sources.file(module).and_then(|file| build_id(&file).map(|found| (file, found)));
            match found {
                Ok((file, found)) if found == module.build_id && !found.is_empty() => {
                    out.add(path, &file, left, &mut notes);
                    out.file = Some(file);
                }
                Ok((file, found)) if found == module.build_id => {
                    notes
                        .push(format!("{path} has no build-id: whether it is the file that was recorded is not known"));
                    out.add(path, &file, left, &mut notes);
                }
                Ok((_, found)) => {
                    let (found, wanted) = (hex(&found), hex(&module.build_id));
                    notes.push(format!(
                        "{path} is not the file that was recorded: wanted build-id {wanted}, found {found}; its names are not used"
                    ));
                }
                Err(error) => notes.push(format!("{path}: {error}; its names are not known")),
            }
        }
        if let Some(file) = sources.debug(&module.build_id)
            && build_id(&file).is_ok_and(|found| found == module.build_id)
        {
            out.add(&format!("the debug file of {path}"), &file, left, &mut notes);
        }
        out.functions.sort_unstable();
        out.functions.dedup_by_key(|function| function.address);
        (out, notes)
    }

    fn add(&mut self, path: &str, file: &Opened, left: &mut u64, notes: &mut Vec<String>) {
        let cache = elf::cache(file);
        let Some(elf) = Elf::of(&cache) else { return };
        match functions(&elf) {
            Ok(functions) => self.functions.extend(functions),
            Err(error) => notes.push(format!("{path}: {error}; its functions are not all named")),
        }
        match packed::unpacked(&elf) {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                let functions = Elf::of(&*bytes).and_then(|elf| functions(&elf).ok());
                self.functions.extend(functions.unwrap_or_default());
            }
            Err(error) => notes.push(format!("{path}: {error}; its functions are not all named")),
        }
        // The debug information of the debug file takes precedence, because this file is read last.
        match Debug::of(file, &elf, left) {
            Ok(Some(debug)) => self.debug = Some(debug),
            Ok(None) => {}
            Err(error) => notes.push(format!("{path}: {error}; its functions have no lines")),
        }
    }

    /// The frames at an address of the file, innermost first. At least one.
    pub(crate) fn frames(&mut self, address: u64) -> Vec<NamedFrame> {
        let mut out: Vec<NamedFrame> = Vec::new();
        if let Some(Debug { lines, scopes }) = &mut self.debug
            && let Ok(mut frames) = lines.find_frames(address).skip_all_loads()
        {
            while let Ok(Some(frame)) = frames.next() {
                let location = frame.location.as_ref();
                let entry = frame.dw_die_offset.map(|entry| entry.0.into_u64() as usize);
                let mut identity = entry.zip(scopes.as_mut()).and_then(|(entry, scopes)| scopes.find(address, entry));
                // Debug information with lines only has no declarations, no scopes and no linkage names.
                if let Some(identity) = identity.as_mut().filter(|identity| identity.line == 0) {
                    identity.file = location.and_then(|location| location.file).unwrap_or_default().into();
                }
                let name = frame.function.as_ref().and_then(|name| {
                    let raw = name.raw_name().ok()?;
                    let whole = demangled(&raw);
                    // A name that is not mangled has no scope.
                    let path = identity.as_ref().filter(|_| raw == whole).map(|identity| identity.path.clone());
                    Some(path.unwrap_or_else(|| without_hash(&whole).into()))
                });
                out.push(NamedFrame {
                    source: if name.is_some() { NameSource::Debug } else { NameSource::None },
                    function: name.unwrap_or_default(),
                    file: location.and_then(|location| location.file).unwrap_or_default().into(),
                    line: location.and_then(|location| location.line).unwrap_or(0),
                    identity: identity.map(Arc::new),
                    ..NamedFrame::default()
                });
            }
        }
        if out.is_empty() {
            out.push(NamedFrame::default());
        }
        // The outermost one is the function of the symbol.
        let is_short = |frame: &NamedFrame| frame.identity.as_ref().is_none_or(|identity| identity.line == 0);
        if let Some(last) = out.last_mut()
            && let Some(function) = self.function(address)
        {
            last.code_bytes = function.size;
            if last.is_named() && !is_short(last) {
                // GCC gives the functions of all lambdas in one line the same name, such as `call<main()::<lambda()> >`. So the address
                // distinguishes them.
                if let Some(identity) = last.identity.as_mut().filter(|identity| identity.path.contains("<lambda")) {
                    Arc::make_mut(identity).address = function.address;
                }
                return out;
            }
            let name = demangled(&function.name);
            (last.function, last.source) = (without_hash(&name).into(), function.table);
            let (path, file) = (name.into_owned(), function.source.clone());
            last.identity =
                Some(Arc::new(FunctionId { path, file, address: function.address, ..FunctionId::default() }));
        }
        out
    }

    /// Whether the file has no unwinding table for an address, so that a stack walk ends there. False if the tables cannot be read.
    pub(crate) fn is_without_table(&mut self, address: u64) -> bool {
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

/// The functions with a symbol in a file, including those with only a dynamic symbol. The error says why some are
/// missing.
fn functions<'a>(elf: &Elf<'a, impl ReadRef<'a>>) -> Result<Vec<Function>, String> {
    let mut out = Vec::new();
    let mut trouble = None;
    for (section, table) in [(SymbolSection::Full, NameSource::Symbols), (SymbolSection::Dynamic, NameSource::Exported)]
    {
        let symbols = match elf.symbols(section) {
            Ok(symbols) => symbols,
            Err(error) => {
                trouble = Some(error);
                continue;
            }
        };
        // Local symbols come after the symbol of their source file.
        let mut source = String::new();
        for symbol in symbols {
            match symbol.kind {
                SymbolKind::File => source = symbol.name.into(),
                SymbolKind::Function if symbol.bytes > 0 && symbol.is_defined => {
                    let source = if symbol.is_local { source.clone() } else { String::new() };
                    out.push(Function {
                        address: symbol.address,
                        size: symbol.bytes,
                        table,
                        name: symbol.name.into(),
                        source,
                    });
                }
                _ => {}
            }
        }
    }
    match trouble {
        Some(error) if out.is_empty() => Err(error),
        _ => Ok(out),
    }
}

/// The build-id of a file; empty if it has none.
fn build_id(file: &Opened) -> Result<Vec<u8>, String> {
    let cache = elf::cache(file);
    Elf::of(&cache).map(|elf| elf.build_id()).ok_or_else(|| "it is no ELF file".into())
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
