//! Writes all files of the command, and checks whether existing files and folders belong to this user. New files have the mode 0600, or
//! 0644 if they are for all users. New folders have the mode 0700.

#![expect(clippy::disallowed_methods, reason = "this is the one writer")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The effective user ID: files that this process makes belong to this user.
pub fn user() -> u32 {
    // SAFETY: takes nothing.
    unsafe { libc::geteuid() }
}

/// Makes a file in a folder, under a random name that nobody can predict and no earlier file has.
pub fn new_file_in(folder: &Path) -> io::Result<(File, PathBuf)> {
    new_file_with(folder, 0o600)
}

fn new_file_with(folder: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    loop {
        // The keys of the hash are random.
        let path = folder.join(format!(".allocanary-{:016x}.part", RandomState::new().build_hasher().finish()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (file, path)),
        }
    }
}

/// Writes a file that only this user can read. A file or a link at `path` is replaced by a new file. A device, a pipe or a descriptor
/// (`/dev/stdout`) is written to, and not replaced. Returns the written file, open at its end.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    replace_with(path, bytes, 0o600)
}

/// As [`replace`], but all users can read the file if the umask allows it: for reports of studies, manual pages, and files that are
/// copied to another place.
pub fn publish(path: &Path, bytes: &[u8]) -> io::Result<File> {
    replace_with(path, bytes, 0o644)
}

fn replace_with(path: &Path, bytes: &[u8], mode: u32) -> io::Result<File> {
    if is_stream(path)? {
        let mut stream = OpenOptions::new().append(true).custom_flags(libc::O_NOCTTY).open(path)?;
        stream.write_all(bytes)?;
        return Ok(stream);
    }
    let (mut file, fresh) = new_file_with(folder_of(path), mode)?;
    let placed = file.write_all(bytes).and_then(|()| fs::rename(&fresh, path));
    placed.inspect_err(|_| drop(fs::remove_file(&fresh)))?;
    Ok(file)
}

/// Appends to a file, a device, a pipe or a descriptor. Only this user can read a new file.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    open_to_append(path, false, 0o600)?.write_all(bytes)
}

/// Opens a file, a device, a pipe or a descriptor to append to it, and to read it if `read`. A new file has this mode. A link or a pipe of
/// another user is an error.
pub fn open_to_append(path: &Path, read: bool, mode: u32) -> io::Result<File> {
    // Another user may put a link there at any time.
    let follow = if path.is_symlink() { 0 } else { libc::O_NOFOLLOW };
    check_link(path)?;
    is_stream(path)?;
    let mut options = OpenOptions::new();
    options.read(read).append(true).create(true).mode(mode).custom_flags(follow | libc::O_NOCTTY).open(path)
}

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a path must be written to and not replaced: a device, a pipe, or a link to a device, a pipe or a descriptor. A link of another
/// user does not count. A pipe of another user is an error.
fn is_stream(path: &Path) -> io::Result<bool> {
    let Ok(there) = fs::symlink_metadata(path) else { return Ok(false) };
    let is_theirs = there.uid() != user() && there.uid() != 0;
    if is_theirs && there.file_type().is_fifo() {
        return Err(io::Error::other(format!(
            "it is a pipe of user {}, who could read what is written to it",
            there.uid()
        )));
    }
    Ok(!there.is_file() && (!there.is_symlink() || !is_theirs && leads_to_stream(path)))
}

/// Whether a link leads to a device or a pipe, or to a descriptor of a process. The descriptor may be a regular file:
/// `allocanary report --output /dev/stdout >file`.
fn leads_to_stream(link: &Path) -> bool {
    let is_in_proc = |path: &Path| folder_of(path).canonicalize().is_ok_and(|folder| folder.starts_with("/proc"));
    let target = fs::read_link(link).map(|target| folder_of(link).join(target));
    fs::metadata(link).is_ok_and(|meta| !meta.is_file())
        || is_in_proc(link)
        || target.is_ok_and(|path| is_in_proc(&path))
}

/// Makes a folder and all missing folders above it. An existing folder keeps its mode.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a folder. It is an error if the name exists.
pub fn new_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// As [`make_folder`], with the mode of [`passage_mode`].
pub fn make_passage(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(passage_mode()).create(path)
}

/// The mode of a folder for the files of a user's program. A program that root starts may change its user, as nginx's
/// workers do. Under its new user it can open files in the folder by name, but cannot list them.
pub fn passage_mode() -> u32 {
    if user() == 0 { 0o711 } else { 0o700 }
}

/// Fails if a user other than this one and root can replace the file at a path: the file or a folder above it belongs to another user, or
/// others can write to it. A folder such as `/tmp`, in which each user can only remove their own files, is accepted.
pub fn check_path(path: &Path) -> io::Result<()> {
    check_path_of(path, user(), None)
}

/// As [`check_path`], for the files of user `own`. The group `also` may write to them as well.
pub fn check_path_of(path: &Path, own: u32, also: Option<u32>) -> io::Result<()> {
    let path = path.canonicalize()?;
    for part in path.ancestors() {
        let meta = fs::symlink_metadata(part)?;
        let others = if also == Some(meta.gid()) { 0o002 } else { 0o022 };
        let is_shared = meta.mode() & others != 0 && !(meta.is_dir() && meta.mode() & 0o1000 != 0 && part != path);
        let wrong = match meta.uid() {
            owner if owner != own && owner != 0 => format!("belongs to user {owner}, wanted {own} or root"),
            _ if is_shared => format!("can be written to by others: its mode is {:o}", meta.mode() & 0o7777),
            _ => continue,
        };
        return Err(io::Error::other(format!("{} {wrong}", part.display())));
    }
    Ok(())
}

/// Fails if a path is a symbolic link that was made by a user other than this one and root.
pub fn check_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() && meta.uid() != user() && meta.uid() != 0 => {
            Err(io::Error::other(format!("it is a symbolic link of user {}: name what it leads to", meta.uid())))
        }
        _ => Ok(()),
    }
}

/// Changes the mode of this user's file or folder so that nobody else can write to it.
pub fn keep_others_from_writing(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.mode() & 0o022 != 0 && !meta.is_symlink() && meta.uid() == user() {
        fs::set_permissions(path, fs::Permissions::from_mode(meta.mode() & 0o7755))?;
    }
    Ok(())
}

/// Opens a file for reading. It must belong to this user, and no other user may be able to write to it. A link is not
/// followed.
pub fn open_own(path: &Path) -> io::Result<File> {
    // If somebody put a pipe there, opening it must not wait.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    check_own(&file)?;
    Ok(file)
}

/// Fails if an open file belongs to another user, or others can write to it.
pub fn check_own(file: &File) -> io::Result<()> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if meta.uid() != user() {
        return Err(io::Error::other(format!("it belongs to user {}, wanted {}", meta.uid(), user())));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!("others can write to it: its mode is {:o}", meta.mode() & 0o7777)));
    }
    Ok(())
}

/// Fails if a folder is a link, belongs to another user, or is open to others.
pub fn check_folder(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::other("it is a symbolic link"));
    }
    // Another process may have replaced the folder by a link since the last check.
    let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let meta = OpenOptions::new().read(true).custom_flags(flags).open(path)?.metadata()?;
    if meta.uid() != user() {
        return Err(io::Error::other(format!("it belongs to user {}, wanted {}", meta.uid(), user())));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!("its mode is {:o}, wanted 700", meta.mode() & 0o7777)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{chown, symlink};

    use super::*;
    use allocanary_testing::skipped::skipped;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_path_that_others_can_exchange_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, file) = (folder.path().join("inner"), folder.path().join("inner/file"));
        fs::create_dir(&inner).unwrap();
        fs::write(&file, "").unwrap();
        set_mode(&inner, 0o755);
        set_mode(&file, 0o644);
        check_path(&file).unwrap();
        for (path, mode) in [(&inner, 0o775), (&inner, 0o757), (&file, 0o666)] {
            let before = fs::symlink_metadata(path).unwrap().mode();
            set_mode(path, mode);
            let error = check_path(&file).unwrap_err().to_string();
            assert!(error.contains("can be written to by others") && error.contains(path.to_str().unwrap()), "{error}");
            keep_others_from_writing(path).unwrap();
            check_path(&file).unwrap();
            set_mode(path, before);
        }
        set_mode(&inner, 0o1777);
        check_path(&file).unwrap();
        set_mode(&inner, 0o755);
        let link = folder.path().join("link");
        symlink(&inner, &link).unwrap();
        assert!(
            check_link(&link).is_ok() && check_link(&inner).is_ok() && check_link(&folder.path().join("none")).is_ok()
        );
        if chown(&inner, Some(65534), None).is_err() {
            return skipped("only root can give files to others");
        }
        assert!(check_path(&file).unwrap_err().to_string().contains("belongs to user 65534"));
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert!(check_link(&link).unwrap_err().to_string().contains("link of user 65534"));
    }

    #[test]
    fn what_is_made_is_open_to_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let parts = [(); 2].map(|()| new_file_in(folder.path()).unwrap().1);
        assert!(parts[0] != parts[1] && parts.iter().all(|part| mode(part) == 0o600));
        replace(&at("written"), b"text").unwrap();
        append(&at("added"), b"text").unwrap();
        make_folder(&at("a/b")).unwrap();
        assert_eq!(["written", "added"].map(|name| mode(&at(name))), [0o600; 2]);
        new_folder(&at("a/c")).unwrap();
        assert_eq!(["a", "a/b", "a/c"].map(|name| mode(&at(name))), [0o700; 3]);
        assert_eq!(new_folder(&at("a/c")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        make_passage(&at("d/e")).unwrap();
        assert_eq!(mode(&at("d/e")), passage_mode());
    }

    /// Others can read it, but not write to it, however wide the umask is.
    #[test]
    fn what_is_published_can_be_read_by_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        publish(&path, b"text").unwrap();
        // The umask belongs to the whole process, so a test cannot change it.
        let umask = fs::read_to_string("/proc/self/status").unwrap();
        let umask = umask.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap().trim();
        assert_eq!(mode(&path), 0o644 & !u32::from_str_radix(umask, 8).unwrap());
    }

    #[test]
    fn lines_are_added_to_a_file_and_not_through_a_link_of_another_user() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link, nowhere) = (folder.path().join("log"), folder.path().join("link"), folder.path().join("none"));
        symlink(&path, &link).unwrap();
        append(&path, b"one\n").unwrap();
        append(&link, b"two\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
        append(Path::new("/dev/null"), b"x").unwrap();
        assert!(append(folder.path(), b"x").is_err());
        symlink(&nowhere, folder.path().join("theirs")).unwrap();
        if std::os::unix::fs::lchown(&link, Some(65534), None).is_err() {
            return skipped("only root can give files to others");
        }
        assert!(append(&link, b"x").unwrap_err().to_string().contains("link of user 65534"));
        let pipe = folder.path().join("pipe");
        let name = std::ffi::CString::new(pipe.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a path that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        chown(&pipe, Some(65534), None).unwrap();
        assert!(append(&pipe, b"x").unwrap_err().to_string().contains("pipe of user 65534"));
        assert!(replace(&pipe, b"x").unwrap_err().to_string().contains("pipe of user 65534"));
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn a_file_is_opened_where_it_is_this_users_own() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        replace(&path, b"text").unwrap();
        symlink(&path, &link).unwrap();
        assert!(open_own(&path).is_ok() && open_own(&link).is_err() && open_own(folder.path()).is_err());
        set_mode(&path, 0o644);
        assert!(open_own(&path).is_ok(), "others may read it");
        for open in [0o664, 0o646] {
            set_mode(&path, open);
            assert!(open_own(&path).unwrap_err().to_string().contains("others can write"));
        }
        set_mode(&path, 0o600);
        match chown(&path, Some(65534), None) {
            Ok(()) => assert!(open_own(&path).unwrap_err().to_string().contains("belongs to user 65534")),
            Err(_) => skipped("only root can give a file to another user"),
        }
    }

    /// A file that others could read, or a link to another place, is not written to.
    #[test]
    fn a_file_that_is_replaced_is_this_users_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        replace(&path, b"old").unwrap();
        set_mode(&path, 0o644);
        symlink(&path, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&link).unwrap()), (b"old".to_vec(), b"new".to_vec()));
        let mut file = replace(&path, b"a").unwrap();
        file.write_all(b"b").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ab");
        for path in [&path, &link] {
            assert_eq!(fs::symlink_metadata(path).unwrap().mode() & 0o7777, 0o600);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    /// As `/dev/stdout` and the `/dev/fd/63` of a shell's `>(...)`: links to descriptors.
    #[test]
    fn devices_and_descriptors_are_written_to_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(replace(Path::new("/dev/null"), b"x").is_ok());
        symlink("/dev/null", at("null")).unwrap();
        replace(&at("null"), b"x").unwrap();
        let file = File::options().append(true).create_new(true).open(at("file")).unwrap();
        let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        symlink(&descriptor, at("stdout")).unwrap();
        replace(Path::new(&descriptor), b"a").unwrap();
        replace(&at("stdout"), b"b").unwrap();
        append(&at("stdout"), b"c").unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"abc");
        let (mut reader, writer) = io::pipe().unwrap();
        replace(Path::new(&format!("/proc/self/fd/{}", writer.as_raw_fd())), b"abc").unwrap();
        drop(writer);
        assert_eq!(io::read_to_string(&mut reader).unwrap(), "abc");
        assert!(at("null").is_symlink() && at("stdout").is_symlink());
    }

    #[test]
    fn a_folder_is_taken_where_it_is_this_users_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("folder"), folder.path().join("link"));
        make_folder(&path).unwrap();
        symlink(&path, &link).unwrap();
        replace(&folder.path().join("file"), b"").unwrap();
        assert!(check_folder(&path).is_ok() && check_folder(&folder.path().join("file")).is_err());
        assert!(check_folder(&link).unwrap_err().to_string().contains("link"));
        for open in [0o777, 0o750, 0o701] {
            set_mode(&path, open);
            assert!(check_folder(&path).unwrap_err().to_string().contains("wanted 700"));
        }
        set_mode(&path, 0o700);
        match chown(&path, Some(65534), None) {
            Ok(()) => assert!(check_folder(&path).unwrap_err().to_string().contains("belongs to user 65534")),
            Err(_) => skipped("only root can give a folder to another user"),
        }
    }
}
