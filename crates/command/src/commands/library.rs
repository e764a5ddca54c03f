//! The libraries that this command preloads. In: a library's name. Out: its path, if a loader can use it.

use std::path::PathBuf;

use super::cells;
use allocanary_doctor::program::damage;
use allocanary_rows::error::{Error, Result};
use allocanary_study::session::place;

/// The library `preload-NAME` in these folders or in the command's. It is built if cargo has started the command from its sources. Errors
/// begin with `wanted_by`.
pub fn find(name: &str, wanted_by: &str, folders: &[PathBuf]) -> Result<PathBuf> {
    let folders: Vec<PathBuf> = folders.iter().cloned().chain([place::folder()?]).collect();
    let find = || folders.iter().map(|folder| folder.join(format!("preload-{name}"))).find(|path| path.is_file());
    let found = match find() {
        Some(found) => found,
        None => {
            cells::build_missing()?;
            find().ok_or_else(|| {
                let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
                Error::Cell(format!(
                    "{wanted_by}: wanted preload-{name} in {}, found no such file: install allocanary again, by its package or by \
                     `cargo install`",
                    folders.join(" or ")
                ))
            })?
        }
    };
    let found = found.canonicalize().unwrap_or(found);
    match damage(&found) {
        None => Ok(found),
        Some(why) => Err(Error::Cell(format!(
            "{wanted_by}: {}: wanted a whole library that can be read, found {why}: install allocanary again, by its package or by \
             `cargo install`",
            found.display()
        ))),
    }
}

/// As [`find`], for `LD_PRELOAD` on this machine.
pub fn for_loader(name: &str, wanted_by: &str, folders: &[PathBuf]) -> Result<PathBuf> {
    let found = find(name, wanted_by, folders)?;
    if found.display().to_string().contains([' ', ':']) {
        let found = found.display();
        return Err(Error::Cell(format!("{found}: LD_PRELOAD cannot name a path with a space or a colon: move it")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_testing::programs::compiled;

    #[test]
    fn a_library_that_ends_too_early_is_refused_and_one_in_a_folder_that_the_loader_would_split() {
        let folder = tempfile::Builder::new().prefix("two words").tempdir().unwrap();
        let source = folder.path().join("preload.c");
        std::fs::write(&source, "int of_ours = 1;\n").unwrap();
        let Some(built) = compiled(&source, folder.path(), &["-shared", "-fPIC"]) else { return };
        let file = folder.path().join("preload-mine");
        std::fs::copy(built, &file).unwrap();
        let folders = [folder.path().to_path_buf()];
        let said = |found: Result<PathBuf>| found.unwrap_err().to_string();
        assert_eq!(find("mine", "x", &folders).unwrap(), file.canonicalize().unwrap());
        let split = said(for_loader("mine", "x", &folders));
        assert!(split.ends_with("LD_PRELOAD cannot name a path with a space or a colon: move it"), "{split}");
        let whole = std::fs::read(&file).unwrap();
        for (bytes, why) in [(whole.len() / 4, "bytes, and what is loaded needs"), (10, "no ELF library")] {
            std::fs::write(&file, &whole[..bytes]).unwrap();
            let said = said(find("mine", "preload mine", &folders));
            assert!(said.starts_with("preload mine: ") && said.contains(why), "{said}");
        }
    }
}
