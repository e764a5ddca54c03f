//! A sort in files: a folder that takes no file is refused, a disk that fills is an error, and few records are in a file too.

use std::fs;
use std::path::Path;

use allocanary_rows::sample::FailureKind;
use tempfile::tempdir;

use super::support::{answer, cell, run_cell};
use allocanary_testing::skipped::skipped;
use allocanary_testing::tiny::Tiny;

fn sort(folder: &Path, records: u64) -> String {
    format!("sort:variant=mapped,records={records},settle=1ms,folder={}", folder.display())
}

/// Why a sort on three threads was refused.
fn refusal(folder: &Path, records: u64) -> String {
    let failure = run_cell(&cell("system", &sort(folder, records), 3)).unwrap().error.unwrap();
    assert_eq!(failure.kind, FailureKind::Refused, "{}", failure.text);
    failure.text
}

#[test]
fn a_folder_that_takes_no_file_is_refused() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for (place, why) in [(folder.path().join("missing"), "No such file"), (file, "Not a directory")] {
        let said = refusal(&place, 1000);
        assert!(said.starts_with(&format!("parameter `folder`: {}: ", place.display())), "{said}");
        assert!(said.contains(why) && said.contains("choose another `folder`"), "{said}");
    }
}

#[test]
fn few_records_are_in_a_file_too() {
    // Fewer records than threads: some threads have no record and no file. The workload itself checks that the file is
    // mapped.
    for records in [1, 2, 100] {
        assert_eq!(answer(&cell("system", &sort(Path::new("/var/tmp"), records), 3)).operations, records);
    }
}

#[test]
fn a_disk_that_is_read_only_or_full_or_fills_is_an_error() {
    let (read_only, tiny) = match (Tiny::mount("1m", "ro"), Tiny::mount("1m", "rw")) {
        (Ok(read_only), Ok(tiny)) => (read_only, tiny),
        (Err(why), _) | (_, Err(why)) => {
            return skipped(why);
        }
    };
    let said = refusal(read_only.path(), 1000);
    assert!(said.starts_with("parameter `folder`: ") && said.contains("Read-only"), "{said}");
    // 4.6 MiB of records; and 0.9 MiB, next to which no thread has room for the copy of its third that sorting needs.
    let place = tiny.path();
    let said = refusal(place, 300_000);
    assert!(said.starts_with("record ") && said.contains(&format!("{}: no room", place.display())), "{said}");
    let said = refusal(place, 57_000);
    assert!(said.contains(&format!("{}: no room", place.display())), "{said}");
    fs::write(place.join("all of it"), vec![1; 1 << 20]).unwrap();
    let said = refusal(place, 1000);
    assert!(said.starts_with("parameter `folder`: ") && said.contains("no room"), "{said}");
}
