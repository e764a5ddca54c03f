//! If there is nothing to record, or `record` may not record it, the printed reason is the true one.

use std::fs;
use std::path::Path;

use allocanary_sys::private::user;
use allocanary_testing::programs::compiled_text;
use allocanary_testing::skipped::skipped;
use tempfile::tempdir;

use super::record::traces;
use super::support::{Ran, allocanary, copy_program};

fn record(folder: &Path, program: &str) -> Ran {
    allocanary(folder, ["record", "-o", "traces", "--", program])
}

#[test]
fn a_program_that_allocates_nothing_is_not_told_that_it_can_have_no_stacks() {
    let folder = tempdir().unwrap();
    let ran = record(folder.path(), "/bin/true");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.err.contains("no stacks"), "{}", ran.err);
}

#[test]
fn a_program_with_a_sanitizer_is_told_of_it() {
    let folder = tempdir().unwrap();
    let text = "#include <stdlib.h>\nint main(void) { free(malloc(7)); return 0; }\n";
    if compiled_text(folder.path(), "hello.c", text, &["-fsanitize=address"]).is_none() {
        return;
    }
    let ran = record(folder.path(), "./hello");
    assert!(ran.code == Some(2) && ran.err.contains("AddressSanitizer"), "{}", ran.err);
}

#[test]
fn a_program_s_name_does_not_steer_the_terminal() {
    let folder = tempdir().unwrap();
    let name = "./\u{1b}[31mred";
    copy_program(Path::new("/bin/true"), &folder.path().join(name));
    let ran = record(folder.path(), name);
    let [path] = &traces(&folder.path().join("traces"))[..] else { panic!("one trace: {}", ran.err) };
    for what in ["info", "check"] {
        let told = allocanary(folder.path(), ["trace", what, path.to_str().unwrap()]);
        assert!(told.code == Some(0) && !told.out.contains('\u{1b}') && !told.err.contains('\u{1b}'), "{told:?}");
    }
}

#[test]
fn a_link_of_another_user_is_no_folder_for_traces() {
    let folder = tempdir().unwrap();
    let (link, target) = (folder.path().join("traces"), folder.path().join("target"));
    fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert_eq!(record(folder.path(), "/bin/echo").code, Some(0), "a link of one's own");
    if user() != 0 {
        return skipped("only root can give files to others");
    }
    let before = fs::read_dir(&target).unwrap().count();
    std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
    let ran = record(folder.path(), "/bin/echo");
    assert!(ran.code == Some(2) && ran.err.contains("symbolic link of user 65534"), "{}", ran.err);
    assert_eq!(fs::read_dir(&target).unwrap().count(), before);
}
