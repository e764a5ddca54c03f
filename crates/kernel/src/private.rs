//! Files and folders that only this user can read. In: paths. Out: new files of mode 0600, new folders of mode 0700, and
//! whether an existing file or folder belongs to this user.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The user as whom this process makes and opens files.
pub fn user() -> u32 {
    // SAFETY: takes nothing.
    unsafe { libc::geteuid() }
}

/// Makes a new file, for reading and writing. It is an error if the name exists; a link is not followed.
pub fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Makes a file in a folder, under a random name that nobody can predict and no earlier file has.
pub fn new_file_in(folder: &Path) -> io::Result<(File, PathBuf)> {
    loop {
        // The keys of the hash are random.
        let path = folder.join(format!(".allocanary-{:016x}.part", RandomState::new().build_hasher().finish()));
        match new_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (file, path)),
        }
    }
}

/// Opens a file for writing, and empties it. An existing file keeps its mode.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Writes a whole file. An existing file keeps its mode.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(path)?.write_all(bytes)
}

/// Writes a file that only this user can read. A file or a link at `path` is replaced by a new file. A device or a pipe at `path` is
/// written to, and not replaced. Returns the written file, open at its end.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_symlink()) {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.write_all(bytes)?;
        return Ok(file);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (mut file, fresh) = new_file_in(folder)?;
    let placed = file.write_all(bytes).and_then(|()| fs::rename(&fresh, path));
    placed.inspect_err(|_| drop(fs::remove_file(&fresh)))?;
    Ok(file)
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
    let path = path.canonicalize()?;
    for part in path.ancestors() {
        let meta = fs::symlink_metadata(part)?;
        let is_shared = meta.mode() & 0o022 != 0 && !(meta.is_dir() && meta.mode() & 0o1000 != 0 && part != path);
        let wrong = match meta.uid() {
            owner if owner != user() && owner != 0 => format!("belongs to user {owner}, wanted {} or root", user()),
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
            Err(io::Error::other(format!("it is a symbolic link of user {}: name the folder itself", meta.uid())))
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
        new_file(&at("new")).unwrap();
        create(&at("created")).unwrap();
        let parts = [(); 2].map(|()| new_file_in(folder.path()).unwrap().1);
        assert!(parts[0] != parts[1] && parts.iter().all(|part| mode(part) == 0o600));
        write(&at("written"), b"text").unwrap();
        make_folder(&at("a/b")).unwrap();
        assert_eq!(["new", "created", "written"].map(|name| mode(&at(name))), [0o600; 3]);
        new_folder(&at("a/c")).unwrap();
        assert_eq!(["a", "a/b", "a/c"].map(|name| mode(&at(name))), [0o700; 3]);
        assert_eq!(new_folder(&at("a/c")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        make_passage(&at("d/e")).unwrap();
        assert_eq!(mode(&at("d/e")), passage_mode());
        // An existing file keeps its mode, and is not replaced by a new file.
        set_mode(&at("written"), 0o644);
        write(&at("written"), b"other").unwrap();
        assert_eq!((mode(&at("written")), fs::read(at("written")).unwrap()), (0o644, b"other".to_vec()));
        assert_eq!(new_file(&at("written")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        symlink(at("nowhere"), at("link")).unwrap();
        assert_eq!(new_file(&at("link")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(!at("nowhere").exists());
    }

    #[test]
    fn a_file_is_opened_where_it_is_this_users_own() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&path, b"text").unwrap();
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
        write(&path, b"old").unwrap();
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
        assert!(replace(Path::new("/dev/null"), b"x").is_ok(), "a device is written to");
    }

    #[test]
    fn a_folder_is_taken_where_it_is_this_users_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("folder"), folder.path().join("link"));
        make_folder(&path).unwrap();
        symlink(&path, &link).unwrap();
        write(&folder.path().join("file"), b"").unwrap();
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
