//! The files of a running process. In: its mappings. Out: modules, with build-ids, so that names come from these files only.

use std::fs::{File, metadata};
use std::os::unix::fs::MetadataExt;

use allocanary_profile::reader::Mapping;
use allocanary_trace::stacks::Module;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ReadCache, elf};

const PAGE: u64 = 4096;

/// The files with code, in the order of their addresses.
pub(super) fn of(pid: u32, mappings: &[Mapping]) -> Vec<Module> {
    let mut all: Vec<(Module, &Mapping)> = Vec::new();
    for mapping in mappings.iter().filter(|one| !one.path.is_empty()) {
        match all.last_mut() {
            Some((module, first))
                if first.path == mapping.path && first.inode == mapping.inode && mapping.offset != 0 =>
            {
                module.end = mapping.to;
                first_code(module, mapping);
            }
            _ => {
                let mut module =
                    Module { start: mapping.from, end: mapping.to, path: mapping.path.clone(), ..Module::default() };
                first_code(&mut module, mapping);
                all.push((module, mapping));
            }
        }
    }
    // Files of data have no code. Until here the bias says whether a module has some.
    let with_code = all.into_iter().filter(|(module, _)| module.bias == 1);
    with_code.map(|(module, first)| identified(pid, module, first)).collect()
}

fn first_code(module: &mut Module, mapping: &Mapping) {
    if mapping.is_executable {
        module.bias = 1;
    }
}

/// Finds the file as this process sees it, its build-id, and the bias of its addresses.
fn identified(pid: u32, mut module: Module, first: &Mapping) -> Module {
    module.bias = module.start.wrapping_sub(first.offset);
    if !module.path.starts_with('/') {
        return module;
    }
    // A process in a container has other files under the same paths.
    let there = format!("/proc/{pid}/root{}", module.path);
    let number = |path: &str| metadata(path).map(|file| (file.dev(), file.ino())).ok();
    if number(&there).is_some() && number(&there) != number(&module.path) {
        module.path = there;
    }
    if let Some((lowest, build_id)) = headers(&module.path) {
        module.bias = module.start.wrapping_sub(lowest);
        module.build_id = build_id;
    }
    module
}

/// The lowest address of a file's segments, and its build-id.
fn headers(path: &str) -> Option<(u64, Vec<u8>)> {
    if !metadata(path).ok()?.is_file() {
        return None;
    }
    let cache = ReadCache::new(File::open(path).ok()?);
    let header = elf::FileHeader64::<Endianness>::parse(&cache).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &cache).ok()?;
    let loaded = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let lowest = loaded.map(|segment| segment.p_vaddr(endian) / PAGE * PAGE).min()?;
    let build_id = object::File::parse(&cache).ok()?.build_id().ok().flatten().unwrap_or_default().to_vec();
    Some((lowest, build_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mappings_of_a_file_are_one_module_and_data_is_none() {
        let mapping = |from: u64, offset, is_executable, path: &str, inode| Mapping {
            from,
            to: from + 0x1000,
            offset,
            is_executable,
            path: path.into(),
            inode,
            ..Mapping::default()
        };
        let mappings = [
            mapping(0x1000, 0, false, "/no/program", 1),
            mapping(0x2000, 0x1000, true, "/no/program", 1),
            mapping(0x3000, 0x2000, false, "/no/program", 1),
            mapping(0x5000, 0, false, "/no/data", 2),
            mapping(0x7000, 0, false, "", 0),
            mapping(0x9000, 0, true, "[vdso]", 0),
        ];
        let found = of(std::process::id(), &mappings);
        let seen: Vec<_> = found.iter().map(|one| (one.start, one.end, one.path.as_str())).collect();
        assert_eq!(seen, [(0x1000, 0x4000, "/no/program"), (0x9000, 0xa000, "[vdso]")]);
    }

    /// This test's own program: an address of its code leads back to the function.
    #[test]
    fn an_address_of_this_program_has_its_name() {
        use crate::names::Names;
        use allocanary_trace::stacks::{Code, Stacks};
        let process = allocanary_profile::reader::Process::open(std::process::id()).unwrap();
        let stacks = Stacks { nodes: Vec::new(), modules: of(process.pid, &process.mappings) };
        let pc = headers as *const () as u64 + 1;
        let frames = Names::of(&stacks).frames(Code { pc, module: 0 });
        assert!(frames.last().unwrap().function.contains("headers"), "{frames:?}");
    }
}
