//! Reads a module as the loader has it in memory. In: the loader's list. Out: its symbols, and the words that the
//! loader fills in with symbols.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::with_exposed_provenance;

use crate::memory::page;

/// An entry of the table of symbols.
#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// An entry of a table of relocations.
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// How the loader fills in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelocationKind {
    /// A pointer in data, or in the table of addresses. The loader fills it in when it loads the module.
    Pointer,
    /// A word for calls. The loader may fill it in only at the first call.
    Call,
}

/// A word that the loader fills in with a symbol's address.
#[derive(Clone, Copy)]
pub struct GotWord<'a> {
    /// Its address.
    pub at: usize,
    /// How it is filled in.
    pub kind: RelocationKind,
    /// The symbol.
    pub name: &'a CStr,
}

/// A module.
#[derive(Clone, Copy)]
pub struct PatchedModule<'a> {
    /// An address in the process minus the address of the same byte in the module's file.
    pub bias: usize,
    headers: &'a [libc::Elf64_Phdr],
    symbols: usize,
    texts: usize,
    /// Tables of relocations: address and bytes.
    relocations: [(usize, usize); 2],
    gnu_hash: usize,
    hash: usize,
}

const LOAD: u32 = libc::PT_LOAD;
const DYNAMIC: u32 = libc::PT_DYNAMIC;
const RELRO: u32 = libc::PT_GNU_RELRO;

/// The numbers of the relocations that the loader fills in with one symbol's address: in data, in the table of addresses, and for calls.
const POINTER: u64 = if cfg!(target_arch = "aarch64") { 257 } else { 1 };
const TABLE: u64 = if cfg!(target_arch = "aarch64") { 1025 } else { 6 };
const CALL: u64 = if cfg!(target_arch = "aarch64") { 1026 } else { 7 };

/// Calls `each` for the modules of the process in the loader's order, until `each` returns false. The loader's list is locked meanwhile.
pub fn all(mut each: impl FnMut(usize, &PatchedModule) -> bool) {
    struct State<'a> {
        each: &'a mut dyn FnMut(usize, &PatchedModule) -> bool,
        number: usize,
    }
    unsafe extern "C" fn one(info: *mut libc::dl_phdr_info, _: usize, state: *mut c_void) -> c_int {
        // SAFETY: the loader's entry, and the state of `all`. Both exist during the call.
        let (info, state) = unsafe { (&*info, &mut *state.cast::<State>()) };
        let number = state.number;
        state.number += 1;
        // SAFETY: the loader's own entry of a module that is mapped.
        let module = unsafe { PatchedModule::of(info) };
        let goes_on = module.is_none_or(|module| (state.each)(number, &module));
        c_int::from(!goes_on)
    }
    let mut state = State { each: &mut each, number: 0 };
    // SAFETY: the state exists until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut state).cast()) };
}

impl PatchedModule<'_> {
    /// Reads a module; `None` if it has no tables.
    ///
    /// # Safety
    ///
    /// `info` is an entry of the loader's list, and its module stays mapped while the value is used.
    unsafe fn of<'a>(info: &libc::dl_phdr_info) -> Option<PatchedModule<'a>> {
        // SAFETY: the caller promises that the program headers are mapped.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let bias = info.dlpi_addr as usize;
        let dynamic = headers.iter().find(|header| header.p_type == DYNAMIC)?;
        let mut module =
            PatchedModule { bias, headers, symbols: 0, texts: 0, relocations: [(0, 0); 2], gnu_hash: 0, hash: 0 };
        let start = bias.wrapping_add(dynamic.p_vaddr as usize);
        let (mut calls, mut call_bytes, mut others, mut other_bytes) = (0, 0, 0, 0);
        for at in 0..dynamic.p_memsz as usize / 16 {
            // SAFETY: the table of a mapped module, as long as its header says.
            let [tag, value] = unsafe { with_exposed_provenance::<[usize; 2]>(start + at * 16).read() };
            // glibc has already added the bias, except in the module that the kernel provides.
            let place = if value < bias { value.wrapping_add(bias) } else { value };
            match tag {
                0 => break,
                2 => call_bytes = value,
                4 => module.hash = place,
                5 => module.texts = place,
                6 => module.symbols = place,
                7 => others = place,
                8 => other_bytes = value,
                23 => calls = place,
                0x6fff_fef5 => module.gnu_hash = place,
                _ => {}
            }
        }
        module.relocations = [(others, other_bytes), (calls, call_bytes)];
        (module.symbols != 0 && module.texts != 0).then_some(module)
    }

    /// Whether an address is in this module.
    pub fn has(&self, address: usize) -> bool {
        self.is_in(address, |header| header.p_type == LOAD)
    }

    /// Whether an address is in this module's code.
    pub fn has_code(&self, address: usize) -> bool {
        self.is_in(address, |header| header.p_type == LOAD && header.p_flags & 1 != 0)
    }

    /// Whether the loader makes the page of an address read-only after it has filled in the words.
    pub fn is_protected(&self, address: usize) -> bool {
        // A page that is only partly in the range stays writable. Which pages these are depends on the kernel's pages.
        let begin = |at: usize| at & !(page() - 1);
        self.headers.iter().filter(|header| header.p_type == RELRO).any(|header| {
            let from = self.bias.wrapping_add(header.p_vaddr as usize);
            let to = from.wrapping_add(header.p_memsz as usize);
            (begin(from)..begin(to)).contains(&address)
        })
    }

    /// The first address of its code, and the address after its last one.
    pub fn code(&self) -> (usize, usize) {
        let code = || self.headers.iter().filter(|header| header.p_type == LOAD && header.p_flags & 1 != 0);
        let from = code().map(|header| self.bias.wrapping_add(header.p_vaddr as usize)).min().unwrap_or(0);
        let to = code().map(|header| self.bias.wrapping_add((header.p_vaddr + header.p_memsz) as usize)).max();
        (from, to.unwrap_or(0))
    }

    fn is_in(&self, address: usize, which: impl Fn(&libc::Elf64_Phdr) -> bool) -> bool {
        self.headers.iter().filter(|header| which(header)).any(|header| {
            let from = self.bias.wrapping_add(header.p_vaddr as usize);
            address.wrapping_sub(from) < header.p_memsz as usize
        })
    }

    fn symbol(&self, number: usize) -> Symbol {
        // SAFETY: the table of a mapped module; its own tables give the number.
        unsafe { with_exposed_provenance::<Symbol>(self.symbols + number * size_of::<Symbol>()).read_unaligned() }
    }

    fn name(&self, symbol: &Symbol) -> &CStr {
        // SAFETY: a text of a mapped module, which ends in NUL.
        unsafe { CStr::from_ptr(with_exposed_provenance::<c_char>(self.texts + symbol.name as usize)) }
    }

    /// Calls `each` for the words that the loader fills in with the address of one symbol, without an addend.
    pub fn words(&self, mut each: impl FnMut(GotWord)) {
        for (start, bytes) in self.relocations {
            for at in 0..bytes / size_of::<Relocation>() {
                // SAFETY: the table of a mapped module, within its length.
                let found = unsafe { with_exposed_provenance::<Relocation>(start).add(at).read_unaligned() };
                let kind = match found.info & 0xffff_ffff {
                    POINTER | TABLE if found.addend == 0 => RelocationKind::Pointer,
                    CALL => RelocationKind::Call,
                    _ => continue,
                };
                let place = self.bias.wrapping_add(found.offset as usize);
                let number = (found.info >> 32) as usize;
                if number == 0 || !place.is_multiple_of(8) {
                    continue;
                }
                each(GotWord { at: place, kind, name: self.name(&self.symbol(number)) });
            }
        }
    }

    /// The addresses of a function that this module defines: those of its first two versions, or 0.
    pub fn defined(&self, name: &CStr) -> [usize; 2] {
        let mut found = [0; 2];
        let mut look = |number: usize| {
            let symbol = self.symbol(number);
            let is_function = [0, 2].contains(&(symbol.info & 0xf)) && symbol.section != 0;
            if is_function && self.name(&symbol) == name {
                let at = self.bias.wrapping_add(symbol.value as usize);
                if found[0] == 0 {
                    found[0] = at;
                } else if found[0] != at {
                    found[1] = at;
                }
            }
        };
        if self.gnu_hash != 0 {
            self.by_gnu_hash(name, &mut look)
        } else if self.hash != 0 {
            self.by_hash(&mut look)
        }
        found
    }

    /// Calls `look` for the symbols that have the hash of a name.
    fn by_gnu_hash(&self, name: &CStr, look: &mut dyn FnMut(usize)) {
        let hash =
            name.to_bytes().iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()));
        // SAFETY: the table of a mapped module: buckets, the first symbol, words of a filter; then the buckets and the chains.
        unsafe {
            let table = with_exposed_provenance::<u32>(self.gnu_hash);
            let (buckets, first, words) = (*table, *table.add(1), *table.add(2) as usize);
            if buckets == 0 {
                return;
            }
            let of_buckets = table.add(4 + words * 2);
            let chains = of_buckets.add(buckets as usize);
            let mut number = *of_buckets.add((hash % buckets) as usize);
            if number < first {
                return;
            }
            loop {
                let found = *chains.add((number - first) as usize);
                if found | 1 == hash | 1 {
                    look(number as usize);
                }
                if found & 1 == 1 {
                    return;
                }
                number += 1;
            }
        }
    }

    /// Calls `look` for all symbols, in a module that has only the old hash table.
    fn by_hash(&self, look: &mut dyn FnMut(usize)) {
        // SAFETY: the table of a mapped module: its second word is the number of symbols.
        let count = unsafe { *with_exposed_provenance::<u32>(self.hash).add(1) };
        (1..count as usize).for_each(look);
    }
}
