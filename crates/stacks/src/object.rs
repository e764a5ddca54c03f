//! Finds the file to which an address of code belongs. In: an address. Out: the file's tables, place in memory, path and build-id.
//! It uses glibc's `_dl_find_object`, which takes no lock and may be called from a signal handler.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::frames::Tables;

/// The function `_dl_find_object`; null if the C library does not have it.
static FIND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The structure that it fills in on x86-64 and aarch64: see `dlfcn.h`.
#[repr(C)]
struct Found {
    flags: u64,
    start: *const u8,
    end: *const u8,
    link_map: *const LinkMap,
    tables: *const u8,
    reserved: [u64; 7],
}

/// The first fields of the dynamic linker's entry for a file: see `link.h`.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
}

/// Looks up the function, and returns whether it exists. Calls `dlsym`, which may allocate.
pub(crate) fn look_up() -> bool {
    if cfg!(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_env = "gnu"))
        && FIND.load(Relaxed).is_null()
    {
        // SAFETY: the name ends in NUL.
        FIND.store(unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) }, Relaxed);
    }
    !FIND.load(Relaxed).is_null()
}

/// A mapped file with code. The file stays mapped while the calling thread has a frame in it.
pub struct MappedObject {
    /// The first address of the file's mapping.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
    /// An address in the process minus the address of the same byte in the file.
    pub bias: u64,
    header: u64,
    name: *const c_char,
}

impl MappedObject {
    /// The file to which an address belongs.
    ///
    /// # Safety
    ///
    /// The file stays mapped while the value is used: no thread closes it with `dlclose`.
    pub unsafe fn of(pc: u64) -> Option<MappedObject> {
        let find = FIND.load(Relaxed);
        if find.is_null() {
            return None;
        }
        // SAFETY: the pointer is that of the C library's function, which fills in the structure. The caller promises
        // that the file stays mapped.
        unsafe {
            let find: unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int = std::mem::transmute(find);
            let mut found: Found = std::mem::zeroed();
            if find(std::ptr::with_exposed_provenance_mut(pc as usize), &mut found) != 0 || found.link_map.is_null() {
                return None;
            }
            let (start, end) = (found.start.expose_provenance() as u64, found.end.addr() as u64);
            let (bias, name) = ((*found.link_map).bias as u64, (*found.link_map).name);
            Some(MappedObject { start, end, bias, header: found.tables.addr() as u64, name })
        }
    }

    /// Its path as the dynamic linker has it; empty for the program itself.
    pub fn path(&self) -> &[u8] {
        if self.name.is_null() {
            return b"";
        }
        // SAFETY: the dynamic linker's text, which ends in NUL.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    /// Its program headers. Empty if its first page has no ELF header.
    fn headers(&self) -> &[u8] {
        // SAFETY: the first page of a file that is mapped.
        let page = unsafe { slice(self.start, 4096) };
        let is_elf = page[..6] == *b"\x7fELF\x02\x01";
        if !is_elf {
            return self.headers_of_program();
        }
        let (at, each, count) =
            (number(page, 32, 8) as usize, number(page, 54, 2) as usize, number(page, 56, 2) as usize);
        if each != HEADER || at >= page.len() {
            return &[];
        }
        &page[at..page.len().min(at + count * HEADER)]
    }

    /// The program headers by their address, which the kernel gives. It is for a program whose segments have gaps, such as the builds of
    /// node: for such a program glibc returns only the part with this code.
    fn headers_of_program(&self) -> &[u8] {
        if !self.is_program() {
            return &[];
        }
        // SAFETY: reads the values that the kernel gave the process; the program's headers stay mapped.
        unsafe {
            let [at, each, count] = [libc::AT_PHDR, libc::AT_PHENT, libc::AT_PHNUM].map(|kind| libc::getauxval(kind));
            if at == 0 || each as usize != HEADER { &[] } else { slice(at, count as usize * HEADER) }
        }
    }

    fn is_program(&self) -> bool {
        self.path().is_empty()
    }

    /// The file's segments: kind, address, and number of bytes in the file.
    fn segments(&self) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let headers = self.headers().chunks_exact(HEADER);
        headers.map(|header| {
            (number(header, 0, 4) as u32, self.bias.wrapping_add(number(header, 16, 8)), number(header, 32, 8))
        })
    }

    /// The segment with this address, as its start and its bytes, without the memory that does not come from the file.
    fn segment(&self, address: u64) -> Option<(u64, &[u8])> {
        const LOAD: u32 = 1;
        // The kernel has mapped all segments of the program, also those that are not in glibc's answer.
        let within = |start: u64, length: u64| {
            self.is_program() || start >= self.start && length <= self.end.saturating_sub(start)
        };
        let found = self.segments().find(|(kind, start, length)| {
            *kind == LOAD && within(*start, *length) && address.wrapping_sub(*start) < *length
        });
        // SAFETY: a segment of a mapped file; segments with tables or notes are readable.
        found.map(|(_, start, length)| (start, unsafe { slice(start, length as usize) }))
    }

    /// Its tables of frames.
    pub fn tables(&self) -> Option<Tables<'_>> {
        let (address, bytes) = self.segment(self.header).filter(|_| self.header != 0)?;
        Some(Tables { bytes, address, header: self.header })
    }

    /// Its build-id; empty if it has none.
    pub fn build_id(&self) -> &[u8] {
        const NOTE: u32 = 4;
        let notes = self.segments().filter(|(kind, ..)| *kind == NOTE).filter_map(|(_, at, length)| {
            let (start, bytes) = self.segment(at)?;
            let from = (at - start) as usize;
            bytes.get(from..from.checked_add(length as usize)?)
        });
        notes.filter_map(build_id_of).next().unwrap_or_default()
    }
}

/// The size of a program header, in bytes.
const HEADER: usize = 56;

/// A number of `length` bytes; 0 if the bytes end before.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let found = bytes.get(at..at + length).unwrap_or_default();
    found.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Finds the build-id in the notes of a file.
pub fn build_id_of(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    loop {
        let [name, length, kind] = [0, 4, 8].map(|at| notes.get(at..at + 4).and_then(|word| word.try_into().ok()));
        let [name, length, kind] = [name?, length?, kind?].map(u32::from_le_bytes);
        let from = 12 + (name as usize).next_multiple_of(4);
        let found = notes.get(from..from + length as usize)?;
        if kind == BUILD_ID && notes.get(12..16) == Some(b"GNU\0") && name == 4 {
            return Some(found);
        }
        notes = notes.get(from + (length as usize).next_multiple_of(4)..)?;
    }
}

/// Mapped memory.
///
/// # Safety
///
/// The memory is readable, and nothing writes to it.
unsafe fn slice<'a>(address: u64, length: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address as usize), length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, found: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [name.len() as u32, found.len() as u32, kind] {
            bytes.extend(number.to_le_bytes());
        }
        for part in [name, found] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn a_build_id_is_found_among_other_notes() {
        let notes = [note(b"GNU\0", 1, &[1; 16]), note(b"Other\0", 3, &[2; 5]), note(b"GNU\0", 3, &[3; 20])].concat();
        assert_eq!(build_id_of(&notes), Some(&[3; 20][..]));
        assert!((0..notes.len()).all(|length| build_id_of(&notes[..length]).is_none()), "cut");
        assert_eq!(build_id_of(&[0xFF; 64]), None);
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    fn the_c_library_is_found_with_its_tables_and_its_build_id() {
        assert!(look_up());
        // SAFETY: the C library and this program stay mapped.
        let object = unsafe { MappedObject::of(libc::getpid as *const () as u64) }.unwrap();
        assert!(object.path().ends_with(b"libc.so.6"));
        assert!(object.start < object.end && object.bias == object.start);
        assert!(!object.build_id().is_empty());
        let tables = object.tables().unwrap();
        assert_ne!(tables.rule(libc::getpid as *const () as u64), crate::rule::Rule::UNKNOWN);
        // SAFETY: as above.
        let own = unsafe { MappedObject::of(look_up as *const () as u64) }.unwrap();
        assert_eq!(own.path(), b"");
        // SAFETY: no file is at these addresses.
        assert!([8, 1 << 46].iter().all(|pc| unsafe { MappedObject::of(*pc) }.is_none()));
    }
}
