//! Finds out which languages a process uses, and so which containers its heap may have.
//!
//! Three words of a C program can look like those of a `std::string` by chance. So the kinds of a language are only searched if the process
//! has the language's library, or marks that each program has that is linked with it. A stripped file still has these marks.

use std::os::unix::fs::FileExt;

use allocanary_process::Opened;
use allocanary_process::elf::{self, Elf};
use memchr::memmem::{self, Finder};

use crate::modules::{ModuleList, Open};

/// The names of the libraries of C++ begin so. Programs in C load them too, for example for an allocator or ICU.
const CPP: [&str; 2] = ["libstdc++.so", "libc++.so"];
/// A file with containers needs one of these symbols of libstdc++, or libc++, whose containers are in its headers. Debian's jemalloc, its ICU
/// and the Java virtual machine have no containers, and need none of them.
const CONTAINERS: [&[u8]; 6] =
    [b"length_error", b"basic_string", b"_Rb_tree", b"_List_node_base", b"_Prime_rehash", b"libc++.so"];
/// The names of these libraries' classes of type information begin so. A statically linked program contains them.
const CPP_MARK: &[u8] = b"N10__cxxabiv1";
/// Paths of the sources of Rust's library, which are in the texts of panics. The first one is in builds that remove the beginning of the
/// path.
const RUST_MARKS: [&[u8]; 2] = [b"library/core/src/", b"/rustc/"];
/// The names of our own preloads begin so. They are written in Rust, but the program may not be.
const OWN: &str = "preload-";
/// The most bytes of a file that are searched.
const MOST: u64 = 128 << 20;
/// How many bytes are read at once.
const CHUNK: usize = 1 << 20;

/// The languages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Languages {
    /// The containers of C++.
    pub cpp: bool,
    /// Rust.
    pub rust: bool,
}

impl Languages {
    /// The languages of a process.
    pub fn of(modules: &ModuleList, open: &Open) -> Languages {
        let mut found = Languages::default();
        let is_searched = |name: &str| !CPP.iter().chain([&OWN]).any(|beginning| name.starts_with(beginning));
        for module in modules.all().filter(|module| is_searched(&module.name)) {
            if found.cpp && found.rust {
                break;
            }
            match module.open(open) {
                Some(file) => found.add(&file),
                // A file that cannot be opened may have any language.
                None => found = Languages { cpp: true, rust: true },
            }
        }
        found
    }

    /// Adds the languages whose marks are among the constants of a file.
    fn add(&mut self, file: &Opened) {
        let cache = elf::cache(file);
        let Some(elf) = Elf::of(&cache) else { return };
        let symbols = elf.bytes(".dynstr", MOST).map_or(&[][..], |(_, names)| names);
        self.cpp |= CONTAINERS.iter().any(|mark| memmem::find(symbols, mark).is_some());
        let constants = elf.section(".rodata").filter(|section| !section.is_compressed);
        // A file may have no sections at all.
        let (mut at, bytes) = constants.map_or((0, file.stamp.bytes), |section| (section.offset, section.bytes));
        let end = at.saturating_add(bytes.min(MOST));
        let marks = [CPP_MARK, RUST_MARKS[0], RUST_MARKS[1]];
        let finders = marks.map(Finder::new);
        let overlap = marks.map(<[u8]>::len).into_iter().max().unwrap_or(0) as u64;
        let mut chunk = vec![0; CHUNK];
        while at < end && !(self.cpp && self.rust) {
            let count = chunk.len().min((end - at) as usize);
            if file.file.read_exact_at(&mut chunk[..count], at).is_err() {
                return;
            }
            let [cpp, rust, rust_too] = [0, 1, 2].map(|mark: usize| finders[mark].find(&chunk[..count]).is_some());
            self.cpp |= cpp;
            self.rust |= rust || rust_too;
            at += if at + count as u64 == end { count as u64 } else { (count as u64).saturating_sub(overlap).max(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use allocanary_testing::programs::compiled_text;

    use super::*;

    fn of(path: &std::path::Path) -> Languages {
        let mut found = Languages::default();
        found.add(&Opened::of(File::open(path).unwrap()).unwrap());
        found
    }

    #[test]
    fn a_program_has_the_marks_of_its_language_after_it_was_stripped() {
        let folder = tempfile::tempdir().unwrap();
        let stripped = ["-s", "-O1"];
        let c = "#include <stdio.h>\nint main(void) { puts(\"/rust/ N10\"); return 0; }\n";
        let Some(c) = compiled_text(folder.path(), "a.c", c, &stripped) else { return };
        assert_eq!(of(&c), Languages::default());
        let cpp = "#include <string>\nint main(int n, char **) { if (n > 9) throw std::string(\"x\"); return 0; }\n";
        let flags = ["-s", "-O1", "-static-libstdc++", "-static-libgcc"];
        let Some(cpp) = compiled_text(folder.path(), "b.cc", cpp, &flags) else { return };
        assert_eq!(of(&cpp), Languages { cpp: true, rust: false });
        let vector = "#include <vector>\nint main(int n, char **) { return std::vector<int>(n + 9).size(); }\n";
        let Some(vector) = compiled_text(folder.path(), "d.cc", vector, &stripped) else { return };
        assert_eq!(of(&vector), Languages { cpp: true, rust: false });
        let plain = "#include <new>\nint main(int n, char **) { return new (std::nothrow) int[n] == nullptr; }\n";
        let Some(plain) = compiled_text(folder.path(), "e.cc", plain, &stripped) else { return };
        assert_eq!(of(&plain), Languages::default(), "it has no container");
        let rust = "fn main() { println!(\"{}\", std::env::args().nth(9).unwrap()); }\n";
        let Some(rust) = compiled_text(folder.path(), "c.rs", rust, &["-O", "-Cstrip=symbols"]) else { return };
        assert!(of(&rust).rust);
    }
}
