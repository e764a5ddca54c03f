//! Finds jemalloc's links, on this host or below the root of another process. jemalloc reads settings from its variable, and also from the
//! text of a symbolic link in /etc. The links that exist are returned as variables whose names are their paths.

use std::fs;
use std::path::Path;

use crate::variables::Variables;

/// Each link, and the variable that the same builds of jemalloc read next. The variable takes precedence.
pub const LINKS: [(&str, &str); 3] = [
    ("/etc/je_malloc.conf", "JE_MALLOC_CONF"),
    ("/etc/malloc.conf", "MALLOC_CONF"),
    ("/etc/_rjem_malloc.conf", "_RJEM_MALLOC_CONF"),
];

/// The value for a file at a link's path that is not a link. jemalloc does not open it.
pub const A_FILE: &str = "(a file, not a link)";

/// The links below `root`.
pub fn links(root: &Path) -> Variables {
    let look = |(path, _): (&str, &str)| {
        let place = root.join(path.trim_start_matches('/'));
        let value = match fs::read_link(&place) {
            Ok(text) => text.to_string_lossy().into_owned(),
            Err(_) if place.exists() => A_FILE.to_string(),
            Err(_) => return None,
        };
        Some((path.to_string(), value))
    };
    LINKS.into_iter().filter_map(look).collect()
}

/// The links below the root of a process.
pub fn of_process(pid: u32) -> Variables {
    let found = allocanary_process::links(pid).unwrap_or_default().into_iter();
    found.map(|(path, text)| (path, text.unwrap_or_else(|| A_FILE.into()))).collect()
}

/// The variable of the same builds as a link; `None` if `name` is not a link of jemalloc.
pub fn variable_of(name: &str) -> Option<&'static str> {
    LINKS.into_iter().find(|(link, _)| *link == name).map(|(_, variable)| variable)
}

/// Which programs read a link on this host.
pub fn readers(link: &str) -> &'static str {
    match link {
        "/etc/_rjem_malloc.conf" => {
            "by Rust programs with tikv-jemallocator as it is built by default: over the settings in their code (and, with \
             install!, over MALLOC_CONF and JE_MALLOC_CONF), under _RJEM_MALLOC_CONF"
        }
        "/etc/malloc.conf" => {
            "ignored by Rust programs with tikv-jemallocator as it is built by default; read by a jemalloc under C's own \
             names (C programs, LD_PRELOAD): over the settings in their code, under MALLOC_CONF"
        }
        _ => {
            "ignored by Rust programs with tikv-jemallocator as it is built by default; read by a jemalloc that was built \
             with the prefix je_: over the settings in its code, under JE_MALLOC_CONF"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_text_of_a_link_counts_and_a_file_is_told() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(links(root.path()), Variables::new());
        let etc = root.path().join("etc");
        fs::create_dir(&etc).unwrap();
        symlink("narenas:3,tcache:false", etc.join("_rjem_malloc.conf")).unwrap();
        fs::write(etc.join("malloc.conf"), "narenas:4").unwrap();
        let found: Vec<(String, String)> = links(root.path()).into_iter().collect();
        let wanted = [("/etc/_rjem_malloc.conf", "narenas:3,tcache:false"), ("/etc/malloc.conf", A_FILE)];
        assert_eq!(found, wanted.map(|(name, value)| (name.to_string(), value.to_string())));
        assert_eq!((variable_of("/etc/malloc.conf"), variable_of("MALLOC_CONF")), (Some("MALLOC_CONF"), None));
    }
}
