//! What another user, or a program, puts where the command writes and reads: links, names of files, names that are commands.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;

use allocanary_trace::builder::TraceBuilder;
use tempfile::{TempDir, tempdir};

use super::bounded::Bounded;
use super::support::{Ran, allocanary, command, golden_path, words};

/// A folder with a trace and with rows.
fn folder() -> TempDir {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("sample.trace"), TraceBuilder::stamped(4096, 1).finish()).unwrap();
    fs::copy(golden_path("rows.jsonl"), folder.path().join("rows.jsonl")).unwrap();
    folder
}

/// A run of the command as a service often runs it: files are made with every bit.
fn wide(folder: &Path, line: &str) -> Ran {
    let mut command = command(folder);
    // SAFETY: umask is a system call alone, between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::umask(0);
            Ok(())
        })
    };
    let ran: Ran = command.args(words(line)).finish().unwrap().into();
    assert_eq!(ran.code, Some(0), "{line}: {}", ran.err);
    ran
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn nothing_is_written_through_a_link_and_no_file_can_be_written_to_by_others() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("secret"), "root's").unwrap();
    for (line, written, wanted) in [
        ("report sample.trace --format html", "sample.html", 0o600),
        ("report sample.trace --output page.html", "page.html", 0o600),
        ("report rows.jsonl --output table.csv", "table.csv", 0o644),
        ("man --out-dir pages", "pages/allocanary.1", 0o644),
    ] {
        let _ = fs::create_dir(at("pages"));
        symlink(at("secret"), at(written)).unwrap();
        wide(folder.path(), line);
        assert_eq!(fs::read_to_string(at("secret")).unwrap(), "root's", "{line}");
        assert_eq!((at(written).is_symlink(), mode(&at(written))), (false, wanted), "{line}");
    }
}

#[test]
fn a_report_goes_to_a_device_as_well() {
    let folder = folder();
    for line in ["report rows.jsonl --format csv", "report sample.trace"] {
        let printed = wide(folder.path(), line).out;
        for to in ["/dev/stdout", "/proc/self/fd/1"] {
            assert_eq!(wide(folder.path(), &format!("{line} --output {to}")).out, printed, "{line} --output {to}");
        }
    }
    assert!(Path::new("/dev/stdout").is_symlink());
}

#[test]
fn a_page_is_a_page_and_never_a_text() {
    let folder = folder();
    for rows in ["rows.jsonl", "sample.trace"] {
        wide(folder.path(), &format!("report {rows} --output page.html"));
        let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
        assert!(page.to_lowercase().starts_with("<!doctype html>"), "{page}");
        let ran = allocanary(folder.path(), words(&format!("report {rows} --format table --output other.html")));
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(
            ran.err.contains("--format table: other.html") && ran.err.contains("leave out --format"),
            "{}",
            ran.err
        );
        assert!(!folder.path().join("other.html").exists());
    }
}

#[test]
fn the_next_command_can_be_pasted_whatever_the_trace_is_called() {
    let folder = tempdir().unwrap();
    let ran = allocanary(folder.path(), ["record", "-o", "a b;touch c", "--", "sh", "-c", "echo done"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let next = ran.err.lines().find_map(|line| line.strip_prefix("next: ")).unwrap_or_else(|| panic!("{}", ran.err));
    assert!(next.starts_with("allocanary who 'a b;touch c/"), "{next}");
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(folder.path()).args(["-c", &next.replacen("allocanary", "printf '%s|'", 1)]);
    let said = String::from_utf8(shell.finish().unwrap().stdout).unwrap();
    assert!(said.starts_with("who|a b;touch c/") && said.ends_with(".trace|"), "{said}");
    assert!(!folder.path().join("c").exists());
}
