//! The perf maps of recorded processes, kept with their traces. In: the traces of a run. Out: beside each a copy of its process's
//! `/tmp/perf-PID.map`, which nobody else keeps: a later process with this number overwrites it.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::commands::terminal;
use allocanary_kernel::private;
use allocanary_trace::format::Header;
use allocanary_who::names::perf_map::{LONGEST, beside};

/// Where runtimes put them.
const FOLDER: &str = "/tmp";

/// A file's time is that of the last tick of the kernel's clock: up to 10 ms before the real one.
const TICK: Duration = Duration::from_millis(100);

/// Keeps the map of each trace with stacks, and says so.
pub fn keep(made: &[(PathBuf, Header)]) {
    for (path, header) in made.iter().filter(|(_, header)| header.stacks > 0) {
        let map = Path::new(FOLDER).join(format!("perf-{}.map", header.pid));
        match copy(&map, path, header.start_wall) {
            Ok(None) => {}
            Ok(Some(bytes)) => terminal::tell(format_args!(
                "{}: the names of code that a runtime has made, {bytes} bytes of {}",
                beside(path).display(),
                map.display()
            )),
            Err(error) => terminal::tell(format_args!(
                "{}: {error}: code that a runtime has made will have no names in {}",
                map.display(),
                path.display()
            )),
        }
    }
}

/// Copies a map, if there is one that was written to since the process started; its length.
fn copy(map: &Path, trace: &Path, started: u64) -> Result<Option<u64>, String> {
    let meta = match std::fs::symlink_metadata(map) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        meta => meta.map_err(|error| error.to_string())?,
    };
    let written = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    if written + TICK < Duration::from_nanos(started) {
        return Ok(None);
    }
    let file = private::open_own(map).map_err(|error| format!("wanted a regular file of this user alone: {error}"))?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let length = bytes.len() as u64;
    if length > LONGEST {
        return Err(format!("wanted at most {LONGEST} bytes, found more"));
    }
    let to = beside(trace);
    private::replace(&to, &bytes).map_err(|error| format!("copying it to {}: {error}", to.display()))?;
    Ok(Some(length))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_map_of_this_process_is_copied_and_is_this_user_s_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (map, trace) = (folder.path().join("perf-1.map"), folder.path().join("a.trace"));
        assert_eq!(copy(&map, &trace, 0), Ok(None));
        fs::write(&map, "1000 10 py::f:/a.py\n").unwrap();
        let written = fs::metadata(&map).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        let after = |wait: Duration| u64::try_from((written + wait).as_nanos()).unwrap();
        assert_eq!(copy(&map, &trace, after(Duration::from_secs(1))), Ok(None), "of an earlier process");
        assert!(!beside(&trace).exists());
        assert_eq!(copy(&map, &trace, after(Duration::from_millis(5))), Ok(Some(20)));
        assert_eq!(fs::read_to_string(beside(&trace)).unwrap(), "1000 10 py::f:/a.py\n");
        assert_eq!(fs::metadata(beside(&trace)).unwrap().permissions().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_map_that_may_be_another_s_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (map, trace) = (folder.path().join("perf-1.map"), folder.path().join("a.trace"));
        let refused = |wanted: &str| {
            let error = copy(&map, &trace, 0).unwrap_err();
            assert!(error.contains(wanted), "{error}");
            assert!(!beside(&trace).exists());
        };
        // A hole: nothing is written.
        File::create(&map).unwrap().set_len(LONGEST + 1).unwrap();
        refused("wanted at most 67108864 bytes");
        fs::set_permissions(&map, fs::Permissions::from_mode(0o666)).unwrap();
        refused("others can write to it");
        fs::rename(&map, folder.path().join("file")).unwrap();
        symlink(folder.path().join("file"), &map).unwrap();
        refused("wanted a regular file of this user alone");
    }
}
