//! The build-ids of the files in this program's memory. Other tools find debug files by them. In: the loader's list. Out: ranges of
//! addresses, each with its build-id.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use allocanary_stacks::object::build_id_of;

/// The addresses of a file, and its build-id in hexadecimal digits.
pub(super) type BuildId = (Range<u64>, String);

/// The build-ids of all files that have one. They are read from memory, because the file at the same path may be another one by now.
pub(super) fn all() -> Vec<BuildId> {
    unsafe extern "C" fn one(info: *mut libc::dl_phdr_info, _: usize, all: *mut c_void) -> c_int {
        // SAFETY: the loader's entry and the list below exist during the call.
        let (info, all) = unsafe { (&*info, &mut *all.cast::<Vec<BuildId>>()) };
        if !info.dlpi_phdr.is_null() {
            // SAFETY: the loader's table of segments. The file stays mapped during the call, because the loader has its lock.
            all.extend(unsafe {
                of(info.dlpi_addr, std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
            });
        }
        0
    }
    let mut all: Vec<BuildId> = Vec::new();
    // SAFETY: the list exists until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut all).cast()) };
    all
}

/// The build-id of one file.
///
/// # Safety
///
/// `segments` are those of a file that is mapped with this bias, and stays mapped during the call.
unsafe fn of(bias: u64, segments: &[libc::Elf64_Phdr]) -> Option<BuildId> {
    let place = |segment: &libc::Elf64_Phdr| {
        let start = bias.wrapping_add(segment.p_vaddr);
        start..start.saturating_add(segment.p_filesz)
    };
    let loaded = || segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
    let of_notes = |segment: &&libc::Elf64_Phdr| segment.p_type == libc::PT_NOTE;
    let build_id = segments.iter().filter(of_notes).map(place).find_map(|notes| {
        let has = |segment: &libc::Elf64_Phdr| {
            let all = place(segment);
            segment.p_flags & libc::PF_R != 0 && all.start <= notes.start && notes.end <= all.end
        };
        if !loaded().any(has) {
            return None;
        }
        let (start, length) = (std::ptr::with_exposed_provenance(notes.start as usize), notes.end - notes.start);
        // SAFETY: a part of a readable segment of a mapped file. Nothing writes to notes.
        build_id_of(unsafe { std::slice::from_raw_parts(start, length as usize) })
    })?;
    let range = loaded().map(place).reduce(|all, one| all.start.min(one.start)..all.end.max(one.end))?;
    Some((range, build_id.iter().map(|byte| format!("{byte:02x}")).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian's C library has one.
    #[test]
    fn the_c_library_has_its_build_id_and_all_of_them_are_hexadecimal() {
        let all = all();
        assert!(all.iter().all(|(range, id)| range.start < range.end && id.len() >= 16), "{all:?}");
        let of = |address: u64| all.iter().find(|(range, _)| range.contains(&address));
        let c_library = of(libc::getpid as *const () as u64).expect("it has one");
        assert!(c_library.1.bytes().all(|byte| byte.is_ascii_hexdigit()), "{c_library:?}");
    }
}
