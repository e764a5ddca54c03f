//! The smallest program with jemalloc as its global allocator. A cell's memory at start is compared with it. In: nothing. Out: its own
//! resident memory in bytes (VmRSS), read before anything is allocated or printed.

use allocanary_sys::sys::{line_number, read_into};

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let mut buffer = [0; 4096];
    let status = read_into("/proc/self/status", &mut buffer).unwrap_or_default();
    println!("{}", line_number(status, b"VmRSS:").unwrap_or(0) * 1024);
}
