//! The symbols of one file. In: a module, the folder with debug files. Out: frames of addresses, and a remark if the file is not used.

use std::fs::File;
use std::path::{Path, PathBuf};

use addr2line::{Loader, demangle_auto};
use allocanary_trace::stacks::Module;
use object::{Object, ObjectSymbol, ReadCache, SymbolKind};

use super::Frame;

/// What is known about the code of a file.
#[derive(Default)]
pub(super) struct Symbols {
    lines: Option<Loader>,
    /// Address, size and name of functions, sorted.
    functions: Vec<(u64, u64, String)>,
}

impl Symbols {
    /// Reads the file of a module and its debug file, if they are of its build.
    pub(super) fn of(module: &Module, debug: &Path) -> (Symbols, Option<String>) {
        let mut out = Symbols::default();
        let mut note = None;
        let path = module.path.strip_suffix(" (deleted)").unwrap_or(&module.path);
        // Others have no file: `[vdso]`, or code that a program makes while it runs.
        if path.starts_with('/') {
            match build_id(Path::new(path)) {
                Ok(found) if found == module.build_id && !found.is_empty() => out.add(Path::new(path)),
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
        out.functions.dedup_by_key(|(address, ..)| *address);
        (out, note)
    }

    fn add(&mut self, file: &Path) {
        if let Ok(functions) = functions(file) {
            self.functions.extend(functions);
        }
        // A file without lines has a loader too: keep that of the debug file.
        if let Ok(lines) = Loader::new(file)
            && (self.lines.is_none() || lines.get_section_range(b".debug_info").is_some())
        {
            self.lines = Some(lines);
        }
    }

    /// The frames at an address of the file, innermost first. At least one.
    pub(super) fn frames(&self, address: u64) -> Vec<Frame> {
        let mut out: Vec<Frame> = Vec::new();
        if let Some(mut frames) = self.lines.as_ref().and_then(|lines| lines.find_frames(address).ok()) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|name| name.demangle().ok());
                let location = frame.location.as_ref();
                out.push(Frame {
                    is_named: name.is_some(),
                    function: name.map_or(String::new(), |name| without_hash(&name).into()),
                    file: location.and_then(|location| location.file).unwrap_or_default().into(),
                    line: location.and_then(|location| location.line).unwrap_or(0),
                    module: String::new(),
                });
            }
        }
        if out.is_empty() {
            out.push(Frame::default());
        }
        // The outermost one is the function of the symbol.
        if let Some(last) = out.last_mut().filter(|last| !last.is_named)
            && let Some(name) = self.function(address)
        {
            (last.function, last.is_named) = (name, true);
        }
        out
    }

    /// The function that has the address. One of an unknown size, or before it, is not the function: a stripped file lacks most.
    fn function(&self, address: u64) -> Option<String> {
        let behind = self.functions.partition_point(|(from, ..)| *from <= address);
        let (from, size, name) = self.functions.get(behind.checked_sub(1)?)?;
        (address - from < *size).then(|| without_hash(&demangle_auto(name.into(), None)).into())
    }
}

/// The functions that a file names, also those that only its dynamic symbols name.
fn functions(file: &Path) -> Result<Vec<(u64, u64, String)>, object::Error> {
    let Ok(file) = File::open(file) else { return Ok(Vec::new()) };
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache)?;
    let symbols = object.symbols().chain(object.dynamic_symbols());
    let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    let named = functions.filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.into())));
    Ok(named.filter(|(_, size, _)| *size > 0).collect())
}

/// The build-id of a file; empty if it has none.
fn build_id(path: &Path) -> Result<Vec<u8>, String> {
    // A trace may name a device, or a pipe that nobody writes to.
    let is_file = std::fs::metadata(path).map_err(|error| error.to_string())?.is_file();
    if !is_file {
        return Err("it is no regular file".into());
    }
    let cache = ReadCache::new(File::open(path).map_err(|error| error.to_string())?);
    let object = object::File::parse(&cache).map_err(|error| error.to_string())?;
    Ok(object.build_id().ok().flatten().unwrap_or_default().to_vec())
}

/// Where the debug file of a build lies.
pub(super) fn debug_file(folder: &Path, build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    Some(folder.join(format!(".build-id/{first:02x}/{}.debug", hex(rest))))
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() { "none".into() } else { bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
}

/// A name without the hash that Rust's older names end in.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    }
}
