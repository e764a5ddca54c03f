//! `--write-for`: the files that apply an answer in production. In: the change, a place, a folder. Out: a folder of files, with a stripped
//! library.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{library, terminal};
use allocanary_rows::error::{Error, Result};
use allocanary_screens::report::production::{DeployTarget, ProductionChange};
use allocanary_study::session::StudyFiles;
use allocanary_sys::private;
use allocanary_text::units::Unit;

/// Fails if there is no folder for the files. Called before anything is measured.
pub fn check(place: Option<DeployTarget>, target: &StudyFiles) -> Result<()> {
    match (place, target) {
        (None, _) | (_, StudyFiles::Folder(_) | StudyFiles::Fresh(_)) => Ok(()),
        (Some(place), target) => Err(Error::Input(format!(
            "--write-for {}: its files need a folder, found --output {}: name a folder by --out-dir",
            place.name(),
            target.name()
        ))),
    }
}

/// Writes the files to a folder below the results, and prints how to use them.
pub fn write(place: DeployTarget, change: Option<ProductionChange>, folder: &Path) -> Result<()> {
    let flag = format!("--write-for {}", place.name());
    let Some(change) = change else {
        terminal::tell(format_args!("{flag}: nothing is to be changed, so there are no files"));
        return Ok(());
    };
    let change = if change.needs_library() && place != DeployTarget::Rust {
        let library = library::find(&change.candidate.name, &flag, &[])?;
        change.with_library(&library)
    } else {
        change
    };
    let bundle = match change.bundle(place) {
        Ok(bundle) => bundle,
        Err(reason) => {
            terminal::tell(format_args!("{flag}: {reason}"));
            return Ok(());
        }
    };
    let folder = folder.join(place.name());
    fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, "making a folder for the lines", error))?;
    let mut text = format!("\n{}, for {}: in {}\n", change.candidate, place.name(), folder.display());
    if let Some((library, name)) = &bundle.library {
        let to = folder.join(name);
        let how = strip(library, &to)?;
        let size = to.metadata().map_or(0, |file| file.len());
        text.push_str(&format!("  {name}: the library, {how}, {}\n", Unit::Bytes.show(size as f64)));
    }
    for (name, lines) in &bundle.files {
        let path = folder.join(name);
        private::publish(&path, lines.as_bytes()).map_err(|error| Error::file(&path, "writing the lines", error))?;
        text.push_str(&format!("  {name}\n"));
    }
    for (at, step) in bundle.steps.iter().enumerate() {
        text.push_str(&format!("{}. {step}\n", at + 1));
    }
    text.push_str("Names in capital letters are yours. Is it in effect? `allocanary doctor PID`\n");
    // This goes to standard error, because the answer on standard output may be JSON.
    terminal::tell(text.trim_end());
    Ok(())
}

/// Copies a library without the parts that only a debugger reads, if `strip` is installed. Returns a text that says so.
fn strip(library: &Path, to: &Path) -> Result<&'static str> {
    let failed = |error| Error::file(to, "copying the library", error);
    let whole = fs::read(library).map_err(|error| Error::file(library, "reading the library", error))?;
    private::publish(to, &whole).map_err(failed)?;
    let stripped = Command::new("strip").arg(to).stderr(Stdio::null()).status();
    // The file must be readable for all users, because a container may run as any user.
    fs::set_permissions(to, Permissions::from_mode(0o755)).map_err(failed)?;
    Ok(match stripped.is_ok_and(|status| status.success()) {
        true => "stripped",
        false => "not stripped (`strip` of binutils makes it a tenth as large)",
    })
}
