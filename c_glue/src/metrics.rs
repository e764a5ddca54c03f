//! The metrics page for C, with the names of `allocanary::metrics`. In: the statistics. Out: text in Prometheus' format, in the caller's
//! buffer.

use std::ffi::c_char;
use std::fmt::Write;

use allocanary::tuning;
use allocanary_sys::proc::ProcStatus;

use crate::border::{AllocanaryCode, Text, buffer, guard, null, problem, tuned};
use crate::statistics::{ALLOCANARY_UNKNOWN, AllocanaryStatistics, read};

/// A gauge: its name, its help, its value.
type Gauge = (&'static str, &'static str, fn(&AllocanaryStatistics) -> u64);

const GAUGES: &[Gauge] = &[
    ("allocator_allocated_bytes", "In blocks that the program holds.", |found| found.allocator_allocated_bytes),
    ("allocator_active_bytes", "In pages that hold at least one such block.", |found| found.allocator_active_bytes),
    ("allocator_resident_bytes", "In pages of the allocator that are in memory.", |found| {
        found.allocator_resident_bytes
    }),
    ("allocator_mapped_bytes", "In mappings of the allocator, touched or not.", |found| found.allocator_mapped_bytes),
    ("allocator_metadata_bytes", "In the allocator's own structures.", |found| found.allocator_metadata_bytes),
    ("allocator_retained_bytes", "Addresses kept for later, with no memory behind them.", |found| {
        found.allocator_retained_bytes
    }),
    ("allocator_arenas", "Arenas that have been used.", |found| found.allocator_arenas),
    ("allocator_arenas_limit", "The most arenas that threads are spread over.", |found| found.allocator_arenas_limit),
    ("requested_bytes", "In blocks of allocanary_calloc, as they were asked for.", |found| found.requested_bytes),
];

/// Writes the metrics page in Prometheus' text format to `text`, which has `size` bytes. It has a gauge for each
/// statistic that this allocator knows, labelled with its name, and the resident memory of the process by part. The length of
/// the whole page, without the NUL at its end, goes to `length`, which may be null. If the page does not fit, the code is
/// `ALLOCANARY_CODE_BUFFER`, and `text` has a part of it. 4 kB are enough.
///
/// # Safety
///
/// `text` is null (and `size` 0) or points to `size` bytes; `length` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_metrics(text: *mut c_char, size: usize, length: *mut usize) -> AllocanaryCode {
    guard(|| {
        // SAFETY: the caller promises it.
        let Some(buffer) = (unsafe { buffer(text, size) }) else { return null("text") };
        let (allocator, found) = match tuning::allocator().and_then(|name| Ok((name, read()?))) {
            Ok(both) => both,
            Err(error) => return tuned(Err(error)),
        };
        let mut page = Text::new(buffer);
        write_resident(&mut page, allocator);
        for (name, help, value) in GAUGES {
            let value = value(&found);
            if value != ALLOCANARY_UNKNOWN {
                let _ = write!(
                    page,
                    "# HELP allocanary_{name} {help}\n# TYPE allocanary_{name} gauge\n\
                     allocanary_{name}{{allocator=\"{allocator}\"}} {value}\n"
                );
            }
        }
        if !length.is_null() {
            // SAFETY: not null, and the caller promises it.
            unsafe { length.write(page.needed) };
        }
        if page.is_cut() {
            let words = format_args!("the page is {} bytes and a NUL, the buffer {size}", page.needed);
            return problem((AllocanaryCode::Buffer, words));
        }
        AllocanaryCode::Ok
    })
}

/// The resident memory of the process, a series for each part that the kernel tells apart. The heap is not analysed: it is in
/// `unknown`.
fn write_resident(page: &mut Text, allocator: &str) {
    let Ok(status) = ProcStatus::own() else { return };
    let parts = [("files", status.files), ("shared", status.shared), ("unknown", status.anonymous)];
    const NAME: &str = "allocanary_resident_bytes";
    let _ = write!(page, "# HELP {NAME} Resident memory of the process by what it is.\n# TYPE {NAME} gauge\n");
    for (part, bytes) in parts {
        if let Some(bytes) = bytes.filter(|bytes| *bytes > 0) {
            let _ = writeln!(page, "{NAME}{{allocator=\"{allocator}\",part=\"{part}\"}} {bytes}");
        }
    }
}
