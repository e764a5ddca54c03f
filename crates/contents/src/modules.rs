//! The program and its libraries (modules): which of them has an address, the size of their thread-local storage, and the global variable
//! at an address.
//!
//! The files belong to the process, and may be hostile. Variables of a file that cannot be read have no names.

use std::cell::OnceCell;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use allocanary_heap::{Machine, Mapping, Memory};
use allocanary_names::sources;
use allocanary_names::variables::{Variable, Variables};
use allocanary_process::Opened;
use allocanary_process::elf::{self, Elf};

use crate::names::short;

/// Opens the file of a mapping.
pub type Open<'a> = dyn Fn(&Mapping) -> Option<Rc<Opened>> + 'a;

/// A program or a library.
pub struct Module {
    /// Its file's name, without folders.
    pub name: String,
    /// Its addresses, according to its headers. A program can map its own file a second time elsewhere: memory between the two is not the
    /// file's.
    from: u64,
    to: u64,
    /// The difference between an address in memory and the address in the file.
    bias: u64,
    /// Bytes of thread-local storage.
    tls: u64,
    first: Mapping,
    /// The mappings of its file, up to the next file's.
    mapped: Vec<(u64, u64)>,
    /// Its segments, each as its address in the file, its offset and its bytes.
    segments: Vec<[u64; 3]>,
    build_id: Vec<u8>,
    variables: OnceCell<Variables>,
}

/// All modules, in the order of their addresses.
#[derive(Default)]
pub struct ModuleList(Vec<Module>);

impl ModuleList {
    /// Finds the modules of a process. `open` opens the file of a mapping.
    pub fn of(memory: &dyn Memory, open: &Open) -> ModuleList {
        let mut all: Vec<Module> = Vec::new();
        for mapping in memory.mappings().iter().filter(|one| one.inode != 0) {
            let is_same = |last: &Module| last.first.name == mapping.name && last.first.inode == mapping.inode;
            match all.last_mut() {
                Some(last) if mapping.offset != 0 && is_same(last) => last.mapped.push((mapping.from, mapping.to)),
                _ => all.push(Module::new(mapping)),
            }
        }
        // Data files may be mapped too: their first mapping has no ELF header, so they are removed.
        all.retain_mut(|module| module.read_headers(open, memory.machine()).is_some());
        // A length from a header must not include addresses of the next module.
        for index in 1..all.len() {
            let next = all[index].from;
            all[index - 1].to = all[index - 1].to.min(next);
        }
        ModuleList(all)
    }

    /// The index of the module with this address.
    pub fn find(&self, at: u64) -> Option<u32> {
        let after = self.0.partition_point(|one| one.from <= at);
        after.checked_sub(1).filter(|index| at < self.0[*index].to).map(|index| index as u32)
    }

    /// Reads the bytes for an address from the module's file: `gcore` leaves out memory that cannot be written.
    pub fn read_file(&self, at: u64, into: &mut [u8], open: &Open) -> bool {
        let Some(module) = self.find(at).map(|index| self.get(index)) else { return false };
        let place = module.segments.iter().find_map(|[from, place, bytes]| {
            let within = at.wrapping_sub(module.bias).checked_sub(*from)?;
            let ends = within.checked_add(into.len() as u64).is_some_and(|end| end <= *bytes);
            ends.then(|| place.checked_add(within))?
        });
        let file = place.and_then(|place| Some((place, open(&module.first)?)));
        file.is_some_and(|(place, file)| file.file.read_exact_at(into, place).is_ok())
    }

    /// The module with this index.
    pub fn get(&self, index: u32) -> &Module {
        &self.0[index as usize]
    }

    /// All modules.
    pub fn all(&self) -> impl Iterator<Item = &Module> {
        self.0.iter()
    }

    /// The modules whose file name begins with one of the prefixes.
    pub fn named<'a>(&'a self, prefixes: &'a [&str]) -> impl Iterator<Item = &'a Module> {
        self.0.iter().filter(|one| prefixes.iter().any(|prefix| one.name.starts_with(prefix)))
    }

    /// The thread-local storage next to each thread pointer: that of all modules.
    pub fn tls(&self) -> u64 {
        self.0.iter().map(|one| one.tls.next_multiple_of(64)).fold(0, u64::saturating_add).min(1 << 20)
    }

    /// The name of the global variable at an address. Without a symbol, the module and the distance from its beginning.
    pub fn variable(&self, at: u64, open: &Open) -> Option<String> {
        let module = self.get(self.find(at)?);
        let variable = module.variable(at, open).map(|variable| short(&variable.name()));
        Some(variable.map_or_else(
            || format!("{}+{:#x}", module.name, at - module.from),
            |name| format!("`{name}` in {}", module.name),
        ))
    }

    /// The first address, and the address behind the last one, of the variable at an address.
    pub fn bounds(&self, at: u64, open: &Open) -> Option<(u64, u64)> {
        let module = self.get(self.find(at)?);
        let found = module.variable(at, open)?;
        let from = found.at.wrapping_add(module.bias);
        Some((from, from.wrapping_add(found.bytes)))
    }
}

impl Module {
    fn new(mapping: &Mapping) -> Module {
        let path = mapping.name.strip_suffix(" (deleted)").unwrap_or(&mapping.name);
        Module {
            name: path.rsplit('/').next().unwrap_or_default().to_string(),
            from: mapping.from,
            to: mapping.to,
            bias: 0,
            tls: 0,
            first: mapping.clone(),
            mapped: vec![(mapping.from, mapping.to)],
            segments: Vec::new(),
            build_id: Vec::new(),
            variables: OnceCell::new(),
        }
    }

    /// Its file.
    pub fn open(&self, open: &Open) -> Option<Rc<Opened>> {
        open(&self.first)
    }

    /// Its addresses.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.from..self.to
    }

    fn read_headers(&mut self, open: &Open, machine: Machine) -> Option<()> {
        let file = open(&self.first)?;
        let cache = elf::cache(&file);
        let elf = Elf::of(&cache)?;
        let (mut first, mut begin, mut end, mut stored_end) = (u64::MAX, 0, 0, 0);
        for [at, place, stored, bytes] in elf.loaded() {
            if machine.page_of(at) < first {
                (first, begin) = (machine.page_of(at), machine.page_of(place));
            }
            self.segments.push([at, place, stored]);
            stored_end = stored_end.max(at.checked_add(stored)?);
            end = end.max(machine.page_of(at.checked_add(bytes)?.checked_add(machine.page - 1)?));
        }
        (self.tls, self.build_id) = (elf.thread_local(), elf.build_id());
        // If the code of a file is mapped a second time, this mapping does not start at the beginning of the file. It is no module.
        if first >= end || begin != self.first.offset {
            return None;
        }
        self.bias = self.from.wrapping_sub(first);
        let to = self.from.checked_add(end - first)?;
        let own = self.mapped.iter().filter(|(from, _)| *from < to).map(|(_, to)| *to).max().unwrap_or(self.to);
        // The memory behind the file (bss) is only there if the whole file is mapped. A program that reads its own file may have mapped a
        // part of it as data.
        let is_whole = own.wrapping_sub(self.bias) >= stored_end;
        self.to = if is_whole { to } else { own };
        Some(())
    }

    /// The variable at an address, from the symbols of the file and of its debug file, if this host has one.
    fn variable(&self, at: u64, open: &Open) -> Option<&Variable> {
        let all = self.variables.get_or_init(|| {
            let mut all = Variables::default();
            let files = [self.open(open), sources::debug_file(&self.build_id)];
            files.into_iter().flatten().for_each(|file| all.add(&file));
            all
        });
        all.find(at.wrapping_sub(self.bias))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use allocanary_heap::PAGE;

    use super::*;
    use crate::made::FakeHeap;

    const BASE: u64 = 0x5555_0000_0000;
    const FAR: u64 = 0x7777_0000_0000;

    /// V8 maps the code of its program again, behind its heap.
    #[test]
    fn what_is_between_two_mappings_of_a_file_is_not_the_files() {
        let program = Rc::new(Opened::of(File::open("/proc/self/exe").unwrap()).unwrap());
        let cache = elf::cache(&program);
        let elf = Elf::of(&cache).unwrap();
        let (lowest, highest) = (elf.lowest().unwrap(), elf.highest().unwrap());
        let mut maps = String::new();
        for [address, place, stored, _] in elf.loaded() {
            let (from, to) =
                (BASE + address / PAGE * PAGE - lowest, BASE - lowest + (address + stored).next_multiple_of(PAGE));
            maps += &format!("{from:x}-{to:x} r-xp {:x} 00:01 7 /srv/node\n", place / PAGE * PAGE);
        }
        let code = elf.loaded().map(|[_, place, ..]| place / PAGE * PAGE).max().unwrap();
        maps += &format!("{:x}-{:x} rw-p 0 00:00 0 \n", BASE + (1 << 40), BASE + (1 << 40) + PAGE);
        let again = format!("{FAR:x}-{:x} r-xp {code:x} 00:01 7 /srv/node\n", FAR + PAGE);
        let open = |_: &Mapping| Some(program.clone());
        // Another file can be mapped between the two.
        for between in ["", "666600000000-666600001000 r--p 0 00:01 8 /srv/other\n"] {
            let heap = FakeHeap::with_maps(&format!("{maps}{between}{again}"));
            let modules = ModuleList::of(&heap, &open);
            let has = |at: u64| modules.find(at).map(|index| modules.get(index).name.as_str());
            assert_eq!((has(BASE), has(BASE + highest - lowest - 1)), (Some("node"), Some("node")));
            assert_eq!(
                (has(BASE + highest - lowest), has(BASE + (1 << 40)), has(FAR)),
                (None, None, None),
                "{between}"
            );
        }
    }
}
