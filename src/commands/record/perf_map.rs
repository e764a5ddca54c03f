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
        let map = |pid: u32| Path::new(FOLDER).join(format!("perf-{pid}.map"));
        let parent = made.iter().map(|(_, header)| header).find(|parent| parent.pid == header.parent);
        let parent = parent.map(|parent| (map(parent.pid), parent.start_wall));
        let (map, to) = (map(header.pid), beside(path));
        let own = (map.clone(), header.start_wall);
        match copy(&[parent, Some(own)].into_iter().flatten().collect::<Vec<_>>(), &to) {
            Ok(None) => {}
            Ok(Some(bytes)) => terminal::tell(format_args!(
                "{}: the names of code that a runtime has made, {bytes} bytes of {}",
                to.display(),
                map.display()
            )),
            Err(error) => terminal::tell(format_args!(
                "{error}: code that a runtime has made will have no names in {}",
                path.display()
            )),
        }
    }
}

/// Copies the last of these maps, and before it the others: after a fork the code of the parent is in the child too, and later lines win. Each
/// has been written to since its process started. The length; none if there is no last one.
fn copy(maps: &[(PathBuf, u64)], to: &Path) -> Result<Option<u64>, String> {
    let mut all = Vec::new();
    let mut has_own = false;
    for (map, started) in maps {
        let found = read(map, *started).map_err(|error| format!("{}: {error}", map.display()))?;
        has_own = found.is_some();
        all.extend(found.unwrap_or_default());
    }
    let length = all.len() as u64;
    if !has_own {
        return Ok(None);
    }
    if length > LONGEST {
        return Err(format!("{}: wanted at most {LONGEST} bytes, found more", to.display()));
    }
    private::replace(to, &all).map_err(|error| format!("writing {}: {error}", to.display()))?;
    Ok(Some(length))
}

/// Reads a map, if there is one that was written to since then.
fn read(map: &Path, started: u64) -> Result<Option<Vec<u8>>, String> {
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
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_map_of_this_process_is_copied_behind_its_parent_s_and_is_this_user_s_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (map, to) = (folder.path().join("perf-2.map"), folder.path().join("a.trace.perfmap"));
        let parent = folder.path().join("perf-1.map");
        let own = |started| copy(&[(parent.clone(), 0), (map.clone(), started)], &to);
        assert_eq!(own(0), Ok(None));
        fs::write(&parent, "1000 10 py::f:/a.py\n").unwrap();
        assert_eq!(own(0), Ok(None), "a process without one of its own");
        fs::write(&map, "1000 10 py::g:/a.py\n").unwrap();
        let written = fs::metadata(&map).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        let after = |wait: Duration| u64::try_from((written + wait).as_nanos()).unwrap();
        assert_eq!(own(after(Duration::from_secs(1))), Ok(None), "of an earlier process");
        assert!(!to.exists());
        assert_eq!(own(after(Duration::from_millis(5))), Ok(Some(40)));
        assert_eq!(fs::read_to_string(&to).unwrap(), "1000 10 py::f:/a.py\n1000 10 py::g:/a.py\n");
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_map_that_may_be_another_s_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (map, to) = (folder.path().join("perf-1.map"), folder.path().join("a.trace.perfmap"));
        let refused = |wanted: &str| {
            let error = copy(&[(map.clone(), 0)], &to).unwrap_err();
            assert!(error.contains(wanted), "{error}");
            assert!(!to.exists());
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
