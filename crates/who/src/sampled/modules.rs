//! The files of a running process. In: its mappings. Out: modules, with build-ids, so that names come from these files only.

use allocanary_process::elf::{self, Elf};
use allocanary_profile::reader::Mapping;
use allocanary_trace::stacks::TraceModule;

use allocanary_names::sources::{OfProcess, Sources};

/// The files with code, in the order of their addresses, and how they are opened.
pub(super) fn of(pid: u32, mappings: &[Mapping]) -> (Vec<TraceModule>, OfProcess) {
    let mut all: Vec<(TraceModule, &Mapping)> = Vec::new();
    for mapping in mappings.iter().filter(|one| !one.name.is_empty()) {
        match all.last_mut() {
            Some((module, first))
                if first.name == mapping.name && first.inode == mapping.inode && mapping.offset != 0 =>
            {
                module.end = mapping.to;
                first_code(module, mapping);
            }
            _ => {
                let mut module = TraceModule {
                    start: mapping.from,
                    end: mapping.to,
                    path: mapping.name.clone(),
                    ..TraceModule::default()
                };
                first_code(&mut module, mapping);
                all.push((module, mapping));
            }
        }
    }
    // Files of data have no code. Until here the bias says whether a module has some.
    all.retain(|(module, _)| module.bias == 1);
    let sources = OfProcess::new(pid, all.iter().map(|(_, first)| (first.from, first.to, first.inode)));
    let modules = all.into_iter().map(|(module, first)| identified(module, first, &sources)).collect();
    (modules, sources)
}

#[inline(never)]
fn first_code(module: &mut TraceModule, mapping: &Mapping) {
    if mapping.executable {
        module.bias = 1;
    }
}

/// Finds the build-id of its file, and the bias of its addresses.
fn identified(mut module: TraceModule, first: &Mapping, sources: &OfProcess) -> TraceModule {
    module.bias = module.start.wrapping_sub(first.offset);
    if !module.path.starts_with('/') {
        return module;
    }
    if let Ok(file) = sources.file(&module)
        && let Some(elf) = Elf::of(&elf::cache(&file))
    {
        module.bias = module.start.wrapping_sub(elf.lowest().unwrap_or(first.offset));
        module.build_id = elf.build_id();
    }
    module
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mappings_of_a_file_are_one_module_and_data_is_none() {
        let mapping = |from: u64, offset, executable, path: &str, inode| Mapping {
            from,
            to: from + 0x1000,
            offset,
            executable,
            name: path.into(),
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
        let (found, _) = of(std::process::id(), &mappings);
        let seen: Vec<_> = found.iter().map(|one| (one.start, one.end, one.path.as_str())).collect();
        assert_eq!(seen, [(0x1000, 0x4000, "/no/program"), (0x9000, 0xa000, "[vdso]")]);
    }

    /// This test's own program: an address of its code leads back to the function.
    #[test]
    fn an_address_of_this_program_has_its_name() {
        use allocanary_names::FrameNames;
        use allocanary_profile::reader::ProcessMemory;
        use allocanary_trace::stacks::{CodePlace, Stacks};
        let process = allocanary_heap::LiveProcess::open(std::process::id()).unwrap();
        let (modules, sources) = of(process.pid(), &ProcessMemory::mappings(&process));
        let stacks = Stacks { nodes: Vec::new(), modules };
        let pc = first_code as *const () as u64 + 1;
        let frames = FrameNames::of_process(&stacks, &sources).frames(CodePlace { pc, module: 0 });
        assert!(frames.last().unwrap().function.contains("first_code"), "{frames:?}");
    }
}
