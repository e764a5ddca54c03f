//! Identifies the build of a user's file, so that two builds of a program never share a figure. In: an executable or a library. Out: a
//! short identity, equal for equal builds.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object::{Object, ReadCache};

use allocanary_sys::fnv::Fnv;

/// The bytes of a build-id that are kept: enough for any two builds that a user has.
const KEPT: usize = 6;

/// The beginning of the file's GNU build-id. A file without one, such as a script, has a hash of its content.
pub fn build_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let noted = {
        let cache = ReadCache::new(&file);
        let elf = object::File::parse(&cache).ok();
        elf.and_then(|elf| elf.build_id().ok().flatten().filter(|id| !id.is_empty()).map(<[u8]>::to_vec))
    };
    if let Some(id) = noted {
        return Ok(id.iter().take(KEPT).map(|byte| format!("{byte:02x}")).collect());
    }
    io::Seek::rewind(&mut file)?;
    let mut hash = Fnv::default();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(format!("{:016x}", hash.value()).chars().take(2 * KEPT).collect()),
            Ok(read) => hash.add(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use allocanary_testing::programs::compiled_text;

    #[test]
    fn a_script_is_known_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            build_of(&path).unwrap()
        };
        let first = of("a", "#!/bin/sh\n");
        assert_eq!((first.len(), &first), (2 * KEPT, &of("b", "#!/bin/sh\n")));
        assert_ne!(first, of("a", "#!/bin/sh\ntrue\n"));
        assert!(build_of(Path::new("/no/such")).is_err() && build_of(folder.path()).is_err());
    }

    #[test]
    fn a_program_is_known_by_its_build_id() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let build =
            |flag: &str| compiled_text(folder.path(), "x.c", "int main(void) { return 0; }\n", &[flag]).is_some();
        if !build("-Wl,--build-id=0x0123456789abcdef0123") {
            return;
        }
        assert_eq!(build_of(&at("x")).unwrap(), "0123456789ab");
        assert!(Command::new("strip").arg(at("x")).status().is_ok_and(|status| status.success()));
        assert_eq!(build_of(&at("x")).unwrap(), "0123456789ab", "its symbols are no part of it");
        assert!(build("-Wl,--build-id=none"));
        let hash = build_of(&at("x")).unwrap();
        assert!(hash.len() == 2 * KEPT && hash != "0123456789ab", "{hash}");
    }
}
