//! Finds the modules of a running process with their build-ids, from its mappings, so that names come from these files only.

use allocanary_process::elf::{self, Elf};
use allocanary_profile::reader::Mapping;
use allocanary_trace::stacks::TraceModule;

use allocanary_heap::PAGE;
use allocanary_names::sources::{OfProcess, Sources};

/// The files with code, in the order of their addresses, and the source that opens them.
pub(super) fn of(pid: u32, mappings: &[Mapping]) -> (Vec<TraceModule>, OfProcess) {
    let named = || mappings.iter().filter(|one| !one.name.is_empty());
    let sources = OfProcess::new(pid, named().map(|one| (one.from, one.to, one.inode)));
    let mut files: Vec<Vec<&Mapping>> = Vec::new();
    for mapping in named() {
        match files.last_mut() {
            Some(file) if file[0].name == mapping.name && file[0].inode == mapping.inode && mapping.offset != 0 => {
                file.push(mapping);
            }
            _ => files.push(vec![mapping]),
        }
    }
    // Files without code are left out.
    let with_code = files.iter().filter(|file| file.iter().any(|one| is_code(one)));
    let modules = with_code.flat_map(|file| identified(file, &sources)).collect();
    (modules, sources)
}

#[inline(never)]
fn is_code(mapping: &Mapping) -> bool {
    mapping.executable
}

/// The modules of a file: the part that the loader has mapped, and code that is mapped again elsewhere. V8 maps its own code a second time,
/// near the code that it generates. The generated code between the two belongs to no file.
fn identified(file: &[&Mapping], sources: &OfProcess) -> Vec<TraceModule> {
    let (first, last) = (file[0], file[file.len() - 1]);
    let whole = TraceModule {
        start: first.from,
        end: last.to,
        bias: first.from.wrapping_sub(first.offset),
        path: first.name.clone(),
        ..TraceModule::default()
    };
    if !whole.path.starts_with('/') {
        return vec![whole];
    }
    let Ok(opened) = sources.file(&whole) else { return vec![whole] };
    let cache = elf::cache(&opened);
    let Some(elf) = Elf::of(&cache) else { return vec![whole] };
    let whole = TraceModule { build_id: elf.build_id(), ..whole };
    let (Some(lowest), Some(highest)) = (elf.lowest(), elf.highest()) else { return vec![whole] };
    let bias = first.from.wrapping_sub(lowest);
    let begin = elf.loaded().min_by_key(|[address, ..]| *address).map(|[_, place, ..]| place / PAGE * PAGE);
    let is_loaded = begin == Some(first.offset);
    let end = if is_loaded { bias.wrapping_add(highest) } else { first.from };
    let (loaded, elsewhere): (Vec<&Mapping>, Vec<&Mapping>) = file.iter().copied().partition(|one| one.from < end);
    let loaded = loaded.last().map(|last| TraceModule { end: last.to, bias, ..whole.clone() });
    let again = |code: &Mapping| {
        let bias = code.from.wrapping_sub(elf.code_at(code.offset)?);
        Some(TraceModule { start: code.from, end: code.to, bias, ..whole.clone() })
    };
    loaded.into_iter().chain(elsewhere.into_iter().filter(|one| is_code(one)).filter_map(again)).collect()
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

    /// V8 maps the code of its program again.
    #[test]
    fn code_that_is_mapped_again_is_where_its_file_has_it() {
        use allocanary_profile::reader::ProcessMemory;
        let process = allocanary_heap::LiveProcess::open(std::process::id()).unwrap();
        let own = ProcessMemory::mappings(&process);
        let pc = is_code as *const () as u64;
        let code = own.iter().find(|one| (one.from..one.to).contains(&pc)).unwrap().clone();
        let (known, _) = of(process.pid(), &own);
        let program = known.iter().find(|one| (one.start..one.end).contains(&pc)).unwrap();
        // It follows the program's own mappings, or those of another file.
        let far = Mapping { from: 0x7fff_0000_0000, to: 0x7fff_0000_0000 + (code.to - code.from), ..code.clone() };
        let mut own: Vec<Mapping> = own.into_iter().filter(|one| one.inode == code.inode).collect();
        own.push(far.clone());
        let (found, _) = of(process.pid(), &own);
        assert!(found.iter().all(|one| !(one.start..one.end).contains(&(far.from - 1))), "{found:?}");
        let again = found.iter().find(|one| one.start == far.from).unwrap();
        let address = pc.wrapping_sub(program.bias);
        assert_eq!(far.from + (pc - code.from) - again.bias, address);
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
        let pc = is_code as *const () as u64 + 1;
        let frames = FrameNames::of_process(&stacks, &sources).frames(CodePlace { pc, module: 0 });
        assert!(frames.last().unwrap().function.contains("is_code"), "{frames:?}");
    }
}
