//! Checks by a file's first bytes whether this machine's programs can load it as a library. If not, the error says what it is.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The length of an ELF header up to and including the machine.
const HEAD: usize = 20;

/// Fails if a file is not an ELF file, or is for another architecture than this command.
pub fn check_loadable(path: &Path) -> Result<(), String> {
    let own = head(Path::new("/proc/self/exe"))?;
    check(&head(path)?, &own).map_err(|wrong| format!("{}: {wrong}", path.display()))
}

fn head(path: &Path) -> Result<Vec<u8>, String> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD as u64).read_to_end(&mut head));
    read.map(|_| head).map_err(|error| format!("{}: {error}", path.display()))
}

/// The class is the fifth byte, the byte order is the sixth, and the machine is a number of two bytes at offset 18.
fn check(found: &[u8], own: &[u8]) -> Result<(), String> {
    if found.len() < HEAD || !found.starts_with(b"\x7fELF") {
        return Err("wanted a shared library (ELF), found another kind of file".into());
    }
    let kind = |head: &[u8]| (head[4], head[5], [head[18], head[19]]);
    if own.len() == HEAD && kind(found) != kind(own) {
        return Err(format!(
            "a library for {}, wanted one for {}: its programs cannot load it",
            machine(found),
            std::env::consts::ARCH
        ));
    }
    Ok(())
}

/// The name of the machine, for those that Debian supports.
fn machine(head: &[u8]) -> String {
    let number = match head[5] {
        2 => u16::from_be_bytes([head[18], head[19]]),
        _ => u16::from_le_bytes([head[18], head[19]]),
    };
    let name = match number {
        3 => "i386",
        8 => "mips",
        21 => "ppc64",
        22 => "s390x",
        40 => "arm",
        62 if head[4] == 1 => "x32",
        62 => "x86_64",
        183 => "aarch64",
        243 => "riscv64",
        258 => "loongarch64",
        _ => return format!("machine {number}"),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(class: u8, machine: u8) -> Vec<u8> {
        let mut head = b"\x7fELF".to_vec();
        head.extend([class, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, machine, 0]);
        head
    }

    #[test]
    fn a_library_of_another_machine_is_named() {
        let own = head(2, 62);
        assert_eq!(check(&head(2, 62), &own), Ok(()));
        for (found, said) in [
            (head(1, 3), "a library for i386, wanted one for "),
            (head(2, 183), "a library for aarch64"),
            (head(1, 62), "a library for x32"),
            (head(2, 250), "a library for machine 250"),
            (b"one\n".to_vec(), "wanted a shared library (ELF)"),
            (b"\x7fELF".to_vec(), "wanted a shared library (ELF)"),
        ] {
            let wrong = check(&found, &own).unwrap_err();
            assert!(wrong.contains(said), "{wrong}");
        }
    }

    #[test]
    fn this_program_could_be_loaded_here() {
        assert_eq!(check_loadable(Path::new("/proc/self/exe")), Ok(()));
        assert!(check_loadable(Path::new("/no/such")).unwrap_err().contains("/no/such: No such file"));
    }
}
