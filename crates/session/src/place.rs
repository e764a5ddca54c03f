//! Where the files are that the command uses: cells, preloads and programs. In: the command's own path. Out: one folder.
//!
//! Packages put the command in `PREFIX/bin` and these files in `PREFIX/lib/allocanary`. Cargo builds and installs them next to the
//! command. A link to the command is followed, so each of two installations finds its own files.

use std::path::{Path, PathBuf};

use allocanary_error::{Error, Result};

/// This command's executable.
pub fn command() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Error::file("this command", "finding", error))
}

/// The folder of its cells, preloads and programs.
pub fn folder() -> Result<PathBuf> {
    Ok(folder_of(&command()?))
}

fn folder_of(command: &Path) -> PathBuf {
    let own = command.parent().unwrap_or(Path::new("/"));
    let packaged = own.parent().map(|prefix| prefix.join("lib/allocanary"));
    packaged.filter(|folder| folder.is_dir()).unwrap_or(own.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_package_are_in_its_own_folder_and_those_of_cargo_next_to_the_command() {
        let prefix = tempfile::tempdir().unwrap();
        let command = prefix.path().join("bin/allocanary");
        assert_eq!(folder_of(&command), prefix.path().join("bin"));
        std::fs::create_dir_all(prefix.path().join("lib/allocanary")).unwrap();
        assert_eq!(folder_of(&command), prefix.path().join("lib/allocanary"));
    }
}
