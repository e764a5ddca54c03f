//! A file system that a test can fill.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A file system in memory. The destructor unmounts it. Only root can make one.
pub struct Tiny(TempDir);

impl Tiny {
    /// Makes a file system of this size, in the notation of `mount` (`1m`). `access` is `rw` or `ro`. The error is the output of `mount`.
    pub fn mount(size: &str, access: &str) -> Result<Tiny, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let options = format!("size={size},{access}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        match mount {
            Ok(ran) if ran.status.success() => Ok(Tiny(folder)),
            Ok(ran) => Err(String::from_utf8_lossy(&ran.stderr).trim().to_string()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
