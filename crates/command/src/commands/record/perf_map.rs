//! Keeps the perf maps of recorded processes with their traces. In: the traces of a run. Out: next to each trace, a
//! copy of its process's `/tmp/perf-PID.map`. Nothing else keeps this file: a later process with the same number
//! overwrites it.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::commands::terminal;
use allocanary_names::perf_map::{LONGEST, beside};
use allocanary_sys::private;
use allocanary_trace::format::TraceHeader;

/// The folder to which runtimes write the maps.
const FOLDER: &str = "/tmp";

/// The time of a file is that of the last tick of the kernel's clock. This may be 10 ms before the real time, on a
/// kernel with 100 ticks a second. Ten times as much is allowed. It is unlikely that another process with the same
/// number ended within this time.
const TICK: Duration = Duration::from_millis(100);

/// Keeps the map of each trace with stacks, and prints what it kept.
pub fn keep(made: &[(PathBuf, TraceHeader)]) {
    for (path, header) in made.iter().filter(|(_, header)| header.stacks > 0) {
        let map = |pid: u32| Path::new(FOLDER).join(format!("perf-{pid}.map"));
        let parent = made.iter().map(|(_, header)| header).find(|parent| parent.pid == header.parent);
        let parent = parent.map(|parent| (map(parent.pid), parent.start_wall));
        let (map, to) = (map(header.pid), beside(path));
        match copy((&map, header.start_wall), parent.as_ref().map(|(map, started)| (map.as_path(), *started)), &to) {
            Ok(None) => {}
            Ok(Some((bytes, of_parent))) => {
                let parent = parent
                    .filter(|_| of_parent > 0)
                    .map_or(String::new(), |(map, _)| format!(" and {}", map.display()));
                let (to, map) = (to.display(), map.display());
                terminal::tell(format_args!(
                    "{to}: the names of code that a runtime has made, {bytes} bytes of {map}{parent}"
                ));
            }
            Err(error) => terminal::tell(format_args!(
                "{error}: code that a runtime has made will have no names in {}",
                path.display()
            )),
        }
    }
}

/// Copies a map, and before it the map of the parent: after a fork the child also has the code of the parent, and later
/// lines replace earlier ones. A map counts only if it was written to after its process had started. The parent's map
/// is left out if it cannot be read, or if both together are too long. Returns the length, and how much of it is the
/// parent's; `None` if the process has no map.
fn copy(own: (&Path, u64), parent: Option<(&Path, u64)>, to: &Path) -> Result<Option<(u64, u64)>, String> {
    let (map, started) = own;
    let found = read(map, started).map_err(|error| format!("{}: {error}", map.display()))?;
    let Some(own) = found else { return Ok(None) };
    let wanted = || format!("{}: wanted at most {LONGEST} bytes, found more", map.display());
    let left = LONGEST.checked_sub(own.len() as u64).ok_or_else(wanted)?;
    let parent = parent.and_then(|(map, started)| read(map, started).ok().flatten());
    let mut all = parent.filter(|parent| parent.len() as u64 <= left).unwrap_or_default();
    let of_parent = all.len() as u64;
    all.extend(own);
    private::replace(to, &all).map_err(|error| format!("writing {}: {error}", to.display()))?;
    Ok(Some((all.len() as u64, of_parent)))
}

/// Reads a map, if it exists and was written to after `started`.
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
        let own = |started| copy((&map, started), Some((&parent, 0)), &to);
        assert_eq!(own(0), Ok(None));
        fs::write(&parent, "1000 10 py::f:/a.py\n").unwrap();
        assert_eq!(own(0), Ok(None), "a process without one of its own");
        fs::write(&map, "1000 10 py::g:/a.py\n").unwrap();
        let written = fs::metadata(&map).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        let after = |wait: Duration| u64::try_from((written + wait).as_nanos()).unwrap();
        assert_eq!(own(after(Duration::from_secs(1))), Ok(None), "of an earlier process");
        assert!(!to.exists());
        assert_eq!(own(after(Duration::from_millis(5))), Ok(Some((40, 20))));
        assert_eq!(fs::read_to_string(&to).unwrap(), "1000 10 py::f:/a.py\n1000 10 py::g:/a.py\n");
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o7777, 0o600);
        // If the parent's map is refused, or if both together are too long, only the process's own map is kept.
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(own(0), Ok(Some((20, 0))));
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o600)).unwrap();
        File::options().write(true).open(&parent).unwrap().set_len(LONGEST).unwrap();
        assert_eq!(own(0), Ok(Some((20, 0))));
        assert_eq!(fs::read_to_string(&to).unwrap(), "1000 10 py::g:/a.py\n");
        // Without a map of the process itself, the parent's map is not read.
        fs::remove_file(&map).unwrap();
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(own(0), Ok(None));
    }

    #[test]
    fn a_map_that_may_be_another_s_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (map, to) = (folder.path().join("perf-1.map"), folder.path().join("a.trace.perfmap"));
        let refused = |wanted: &str| {
            let error = copy((&map, 0), None, &to).unwrap_err();
            assert!(error.contains(wanted), "{error}");
            assert!(!to.exists());
        };
        // The file is a hole: no byte is written to the disk.
        File::create(&map).unwrap().set_len(LONGEST + 1).unwrap();
        refused("wanted at most 67108864 bytes");
        fs::set_permissions(&map, fs::Permissions::from_mode(0o666)).unwrap();
        refused("others can write to it");
        fs::rename(&map, folder.path().join("file")).unwrap();
        symlink(folder.path().join("file"), &map).unwrap();
        refused("wanted a regular file of this user alone");
    }
}
