//! Where the files are that the command uses: cells, preloads and programs. In: the command's own path. Out: one folder.
//!
//! Packages put the command in `PREFIX/bin` and these files in `PREFIX/lib/allocanary`. Cargo builds and installs them next to the
//! command. A link to the command is followed, so each of two installations finds its own files.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use allocanary_rows::error::{Error, Result};
use allocanary_sys::private;

/// This command's executable.
pub fn command() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Error::file("this command", "finding", error))
}

/// The folder, and why that of the package is not used although it exists.
static FOUND: OnceLock<(PathBuf, Option<String>)> = OnceLock::new();

/// The folder of its cells, preloads and programs.
pub fn folder() -> Result<PathBuf> {
    let command = command()?;
    let (folder, _) = FOUND.get_or_init(|| folder_of(&command));
    match is_open(folder) {
        true => Err(Error::Input(format!(
            "{}: anybody can put a library next to this command: move the command to a folder of its own",
            folder.display()
        ))),
        false => Ok(folder.clone()),
    }
}

/// Whether every user can make files in a folder, as in `/tmp`.
fn is_open(folder: &Path) -> bool {
    folder.metadata().is_ok_and(|meta| meta.mode() & 0o002 != 0)
}

/// Why the package's folder is not used. `None` if it is used, if there is none, or if [`folder`] was not called yet.
pub fn refused() -> Option<&'static str> {
    FOUND.get()?.1.as_deref()
}

/// Libraries of this folder are loaded into the programs of the command's user, who may be root. So only those who can replace the command
/// may be able to replace them: the folder must belong to root or to the owner of the command. A group may write to it if the group may
/// write to the folder of the command. On many systems each user has a group, and pip makes folders that the group can write to.
fn folder_of(command: &Path) -> (PathBuf, Option<String>) {
    let own = command.parent().unwrap_or(Path::new("/")).to_path_buf();
    let packaged = own.parent().map(|prefix| prefix.join("lib/allocanary"));
    let Some(packaged) = packaged.filter(|folder| folder.is_dir()) else { return (own, None) };
    let owner = command.metadata().map_or(0, |meta| meta.uid());
    let group = own.metadata().ok().filter(|meta| meta.mode() & 0o020 != 0).map(|meta| meta.gid());
    match private::check_path_of(&packaged, owner, group) {
        Ok(()) => (packaged, None),
        Err(why) => {
            let why = format!("{}: not used, so that nobody can plant a library: {why}", packaged.display());
            (own, Some(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_of_a_package_are_in_its_own_folder_and_those_of_cargo_next_to_the_command() {
        let prefix = tempfile::tempdir().unwrap();
        let command = prefix.path().join("bin/allocanary");
        assert_eq!(folder_of(&command), (prefix.path().join("bin"), None));
        make(&prefix.path().join("lib/allocanary"));
        make(&prefix.path().join("bin"));
        std::fs::write(&command, "").unwrap();
        assert_eq!(folder_of(&command), (prefix.path().join("lib/allocanary"), None));
    }

    /// Makes a folder that only this user can write to, whatever the umask is.
    fn make(folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        for made in [folder, folder.parent().unwrap()] {
            std::fs::set_permissions(made, Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn a_folder_in_which_others_can_plant_a_library_is_not_used() {
        let prefix = tempfile::tempdir().unwrap();
        let (bin, lib) = (prefix.path().join("bin"), prefix.path().join("lib/allocanary"));
        let command = bin.join("allocanary");
        [&bin, &lib].into_iter().for_each(|folder| make(folder));
        std::fs::write(&command, "").unwrap();
        let set = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        for (open, mode) in [(&lib, 0o777), (&prefix.path().join("lib"), 0o777), (&lib, 0o775)] {
            set(open, mode);
            let (folder, why) = folder_of(&command);
            let why = why.unwrap();
            assert!(
                folder == bin && why.contains("others: its mode is 77") && why.contains("lib/allocanary: not used"),
                "{why}"
            );
            set(open, 0o755);
        }
        // The group can put anything into the command itself.
        [&bin, &lib].into_iter().for_each(|folder| set(folder, 0o775));
        assert_eq!(folder_of(&command), (lib.clone(), None));
        [&bin, &lib].into_iter().for_each(|folder| set(folder, 0o755));
        let give = |path: &Path, user| std::os::unix::fs::chown(path, Some(user), None);
        if give(&lib, 65534).is_err() {
            return allocanary_testing::skipped::skipped("only root can give files to others");
        }
        let (folder, why) = folder_of(&command);
        assert!(folder == bin && why.unwrap().contains("belongs to user 65534"));
        // The owner of the command can put anything into the command itself.
        for path in [&command, &bin, &prefix.path().join("lib")] {
            give(path, 65534).unwrap();
        }
        give(prefix.path(), 65534).unwrap();
        assert!(is_open(Path::new("/tmp")) && !is_open(&bin));
        assert_eq!(folder_of(&command), (lib, None));
    }
}
