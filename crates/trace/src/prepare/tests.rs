//! Tests of prepared forms that another user put there, or that belong to another trace.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use allocanary_testing::skipped::skipped;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::builder::TraceBuilder;
use crate::coder::{AllocFunction, Event};

/// Makes a trace of some allocations.
fn trace(folder: &TempDir, name: &str, allocations: u64) -> PathBuf {
    let mut sample = TraceBuilder::new(1024);
    for at in 0..allocations {
        sample.event(0, at * 1000, Event::New { how: AllocFunction::Malloc, address: 0x10_0000 + at * 64, size: 48 });
    }
    let path = folder.path().join(name);
    fs::write(&path, sample.finish()).unwrap();
    path
}

/// A trace of 10 operations, the path of its prepared form, and the prepared form of a trace of 1000.
fn two(folder: &TempDir) -> (PathBuf, PathBuf, PathBuf) {
    let (small, large) = (trace(folder, "small.trace", 10), trace(folder, "large.trace", 1000));
    assert_eq!(operations(&large), 1000);
    (small.clone(), name_of(&small), name_of(&large))
}

fn name_of(trace: &Path) -> PathBuf {
    Origin::of(&File::open(trace).unwrap(), Marks::default()).unwrap().beside(trace)
}

fn operations(trace: &Path) -> u64 {
    prepare(trace, Marks::default()).unwrap().operations
}

#[test]
fn a_form_of_another_trace_is_made_again() {
    let folder = tempdir().unwrap();
    let (small, name, large) = two(&folder);
    fs::copy(&large, &name).unwrap();
    assert_eq!(operations(&small), 10);
    assert_eq!(PreparedTrace::open(&name).unwrap().operations, 10, "it was replaced");
}

/// This form is for a replay with some blocks in a pool. The user may choose its path.
#[test]
fn a_form_that_is_named_is_of_this_trace_and_these_marks_or_an_error() {
    let folder = tempdir().unwrap();
    let (small, large) = (trace(&folder, "small.trace", 10), trace(&folder, "large.trace", 1000));
    let form = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
    let marks = |millis: u64| Marks { idle: Some(millis * 1_000_000), ..Marks::default() };
    let read = Trace::open(&small).unwrap();
    write_elsewhere(&read, form.as_file(), form.path(), marks(1), &Elsewhere::default()).unwrap();
    assert_eq!(open_elsewhere(form.path(), &small, marks(1)).unwrap().operations, 10);
    for (trace, marks) in [(&large, marks(1)), (&small, marks(2)), (&small, Marks::default())] {
        let error = open_elsewhere(form.path(), trace, marks).err().unwrap().to_string();
        assert!(error.contains("it is of another trace, of other marks"), "{error}");
    }
}

/// Others may be able to write to the folder of a trace. A file that they put at the open file's path is not written
/// to.
#[test]
fn a_form_is_written_to_the_file_that_was_opened() {
    let folder = tempdir().unwrap();
    let small = trace(&folder, "small.trace", 10);
    let form = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
    let theirs = folder.path().join("theirs");
    fs::write(&theirs, "theirs").unwrap();
    fs::remove_file(form.path()).unwrap();
    symlink(&theirs, form.path()).unwrap();
    let read = Trace::open(&small).unwrap();
    write_elsewhere(&read, form.as_file(), form.path(), Marks::default(), &Elsewhere::default()).unwrap();
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    assert!(form.as_file().metadata().unwrap().len() > 4096);
    assert!(open_elsewhere(form.path(), &small, Marks::default()).is_err(), "a link is not followed");
}

#[test]
fn a_form_of_another_user_is_not_used() {
    let folder = tempdir().unwrap();
    let small = trace(&folder, "small.trace", 10);
    assert_eq!(operations(&small), 10);
    let name = name_of(&small);
    let before = fs::metadata(&name).unwrap().ino();
    if chown(&name, Some(65534), None).is_err() {
        return skipped("only root can give a file to another user");
    }
    assert_eq!(operations(&small), 10);
    assert_ne!(fs::metadata(&name).unwrap().ino(), before);
}

#[test]
fn a_link_at_the_name_is_not_followed() {
    let folder = tempdir().unwrap();
    let (small, name, large) = two(&folder);
    for target in [&large, &folder.path().join("nowhere")] {
        let before = fs::read(target).ok();
        let _ = fs::remove_file(&name);
        symlink(target, &name).unwrap();
        assert_eq!(operations(&small), 10);
        assert_eq!(fs::read(target).ok(), before);
    }
}

/// A trace that is read through /proc: no file can be made next to it.
fn elsewhere(folders: &Folders, trace: &File) -> Result<PreparedTrace> {
    prepare_in(folders, &PathBuf::from(format!("/proc/self/fd/{}", trace.as_raw_fd())), Marks::default())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map(|found| found.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn where_none_can_be_next_to_the_trace_it_is_in_the_users_own_folder() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let small = File::open(trace(&folder, "small.trace", 10)).unwrap();
    fs::create_dir(at("home")).unwrap();
    let mut folders = Folders { cache: Some(at("cache")), home: Some(at("home")), temporary: folder.path().into() };
    let temporary = at(&format!("allocanary-{}", private::user()));
    for own in [at("cache/allocanary"), at("home/.cache/allocanary"), temporary] {
        let inode = || match &entries(&own)[..] {
            [one] => (mode(one), fs::metadata(one).unwrap().ino()),
            found => panic!("{found:?}"),
        };
        assert_eq!(elsewhere(&folders, &small).unwrap().operations, 10);
        let made = inode();
        assert_eq!((mode(&own), made.0), (0o700, 0o600));
        // The form is found there again. It is made again if it is of another trace.
        assert_eq!(elsewhere(&folders, &small).unwrap().operations, 10);
        assert_eq!(inode(), made);
        let (large, name) = (trace(&folder, "large.trace", 1000), entries(&own).remove(0));
        assert_eq!(operations(&large), 1000);
        fs::copy(name_of(&large), &name).unwrap();
        assert_eq!(elsewhere(&folders, &small).unwrap().operations, 10);
        assert_ne!(inode(), made);
        match folders.cache.take() {
            Some(_) => {}
            None => folders.home = None,
        }
    }
}

#[test]
fn a_home_of_another_user_is_left_alone() {
    let folder = tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    let temporary = folder.path().join("tmp");
    let folders = Folders { cache: Some(home.clone()), home: Some(home.clone()), temporary: temporary.clone() };
    assert_eq!(folders.own().len(), 3);
    if chown(&home, Some(65534), None).is_err() {
        return skipped("only root can give a folder to another user");
    }
    assert_eq!(folders.own(), [temporary.join(format!("allocanary-{}", private::user()))]);
}

/// If there is no home folder, and another user has made the folder among the temporary files, this is an error.
#[test]
fn a_folder_that_somebody_planted_is_an_error_that_says_what_to_do() {
    let folder = tempdir().unwrap();
    let small = File::open(trace(&folder, "small.trace", 10)).unwrap();
    let folders = Folders { cache: None, home: None, temporary: folder.path().join("tmp") };
    let planted = folders.own().remove(0);
    let theirs = folder.path().join("theirs");
    let refused = |why: &str| {
        let error = elsewhere(&folders, &small).err().expect("an error").to_string();
        assert!(error.contains(&format!("{}: {why}", planted.display())), "{error}");
        assert!(error.contains("set XDG_CACHE_HOME"), "{error}");
        assert!(entries(&planted).is_empty() && entries(&theirs).is_empty());
    };
    fs::create_dir_all(&folders.temporary).unwrap();
    private::make_folder(&theirs).unwrap();
    symlink(&theirs, &planted).unwrap();
    refused("it is a symbolic link");
    fs::remove_file(&planted).unwrap();
    private::make_folder(&planted).unwrap();
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o777)).unwrap();
    refused("its mode is 777, wanted 700");
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o700)).unwrap();
    match chown(&planted, Some(65534), None) {
        Ok(()) => refused("it belongs to user 65534"),
        Err(_) => skipped("only root can give a folder to another user"),
    }
}

/// A trace that was recorded again has another origin. So has a trace with other marks. A trace that is still being
/// written keeps its origin.
#[test]
fn an_origin_is_of_one_trace_and_its_marks() {
    let folder = tempdir().unwrap();
    let path = trace(&folder, "a.trace", 10);
    let origin = |asked| Origin::of(&File::open(&path).unwrap(), asked).unwrap();
    let first = origin(Marks::default());
    assert_ne!(first, origin(Marks { peak: Some(1), ..Marks::default() }));
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let changed = |at: usize| {
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 1;
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        file.set_modified(time).unwrap();
        origin(Marks::default())
    };
    use crate::format::at::{LAST_TICKS, PID, START_WALL, USED};
    assert_eq!([changed(USED), changed(LAST_TICKS)], [first; 2]);
    let of_another = [changed(PID), changed(START_WALL)];
    assert!(of_another[0] != first && of_another[1] != of_another[0]);
    File::options().write(true).open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_ne!(origin(Marks::default()), of_another[1]);
}
