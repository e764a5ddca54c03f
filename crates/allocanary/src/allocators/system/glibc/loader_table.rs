//! The tunables that glibc's loader took, read in this process. In: the loader's memory. Out: names and values.
//!
//! glibc's only documented way is `--list-tunables` of the loader, in another process. A preload must not start one in
//! the user's program. The loader exports `__tunable_get_val`, which takes a tunable's position in its table. The
//! positions are found by the names, which are in the table at equal distances. If the distances differ, nothing is
//! reported.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

/// More tunables than any version of glibc has.
const MOST: usize = 128;

/// All names begin with this text.
const BEGINNING: &[u8] = b"glibc.";

type GetVal = unsafe extern "C" fn(c_int, *mut u64, *mut c_void);

/// Calls `each` with every tunable's name and value. Allocates nothing.
#[inline]
pub fn each(mut each: impl FnMut(&str, u64)) {
    let Some(table) = table() else { return };
    // SAFETY: the name ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__tunable_get_val".as_ptr()) };
    if found.is_null() {
        return;
    }
    // SAFETY: the loader's function of that name has had that type since glibc 2.26, and no callback is allowed.
    let get_val = unsafe { std::mem::transmute::<*mut c_void, GetVal>(found) };
    for (place, name) in table.iter().flatten().enumerate() {
        let mut value = 0_u64;
        // SAFETY: the position is one in the table; a value has at most 8 bytes.
        unsafe { get_val(place as c_int, &mut value, null_mut()) };
        each(name, value);
    }
}

/// The names in the order of the loader's table; `None` if the table does not look as expected.
#[inline]
fn table() -> Option<[Option<&'static str>; MOST]> {
    let memory = read_only()?;
    let mut names = [None; MOST];
    let (mut count, mut first, mut apart) = (0, 0, 0);
    let mut at = 0;
    while at + BEGINNING.len() < memory.len() {
        if !memory[at..].starts_with(BEGINNING) {
            at += 4; // the table's rows have a larger alignment
            continue;
        }
        let name = CStr::from_bytes_until_nul(&memory[at..]).ok()?.to_str().ok()?;
        match count {
            0 => first = at,
            1 => apart = at - first,
            _ if at - first != count * apart => return None,
            _ => {}
        }
        *names.get_mut(count)? = Some(name);
        count += 1;
        at += name.len().next_multiple_of(4).max(4);
    }
    let known = |wanted: &str| names.iter().flatten().any(|name| *name == wanted);
    (known("glibc.malloc.arena_max") && known("glibc.malloc.mmap_max")).then_some(names)
}

/// The part of the loader's memory that is read-only after its start: it contains the table.
#[inline]
fn read_only() -> Option<&'static [u8]> {
    let mut found: Option<&'static [u8]> = None;
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid row with as many headers as the row says; `found` is the option below.
        unsafe {
            let (info, found) = (&*info, &mut *found.cast::<Option<&'static [u8]>>());
            if info.dlpi_addr as usize as u64 != libc::getauxval(libc::AT_BASE) {
                return 0;
            }
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
            if let Some(part) = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO) {
                let start = info.dlpi_addr as usize + part.p_vaddr as usize;
                let start = std::ptr::with_exposed_provenance(start);
                *found = Some(std::slice::from_raw_parts(start, part.p_memsz as usize));
            }
            1
        }
    }
    let place: *mut Option<&'static [u8]> = &mut found;
    // SAFETY: `look` gets the option, which outlives the call, from this thread only.
    unsafe { libc::dl_iterate_phdr(Some(look), place.cast()) };
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    #[test]
    fn the_loader_says_the_same_of_itself() {
        let mut found = BTreeMap::new();
        super::super::each_effective(&mut |name, value| drop(found.insert(name.to_string(), value.to_string())));
        assert_eq!(found, super::super::effective());
    }
}
