//! The kernel's answer for one address (`PROCMAP_QUERY` of linux/fs.h, from Linux 6.11 on). In: the open file of mappings. Out: a
//! mapping.

use super::Mapping;

/// `_IOWR('f', 17, struct procmap_query)`.
const QUERY: libc::c_ulong = 0xc068_6611;

const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    kind: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

/// The mapping that has this address; all zeros if there is none. `None` if the kernel does not answer.
pub(super) fn mapping_at(file: libc::c_long, address: u64) -> Option<Mapping> {
    let mut name = [0; 16];
    let (answer, has_name) = match ask(file, address, &mut name) {
        // The mapping has a longer name, which is not `[stack]`.
        Err(libc::ENAMETOOLONG) => (ask(file, address, &mut []), false),
        answer => (answer, true),
    };
    match answer {
        Ok(query) => Some(Mapping {
            low: query.start,
            high: query.end,
            is_writable: query.kind & WRITABLE != 0,
            is_executable: query.kind & EXECUTABLE != 0,
            is_first: has_name && name.starts_with(b"[stack]\0"),
        }),
        Err(libc::ENOENT) => Some(Mapping::default()),
        Err(_) => None,
    }
}

/// Asks once, with room for the mapping's name. The error is the system's error number.
fn ask(file: libc::c_long, address: u64, name: &mut [u8]) -> Result<Query, i32> {
    let mut query = Query { size: size_of::<Query>() as u64, address, ..Query::default() };
    if !name.is_empty() {
        (query.name_size, query.name) = (name.len() as u32, name.as_mut_ptr().expose_provenance() as u64);
    }
    // SAFETY: the kernel writes into our own value and into the name's buffer, as far as their sizes say. The caller restores the
    // thread's error number.
    unsafe {
        match libc::syscall(libc::SYS_ioctl, file, QUERY, &raw mut query) {
            0 => Ok(query),
            _ => Err(*libc::__errno_location()),
        }
    }
}
