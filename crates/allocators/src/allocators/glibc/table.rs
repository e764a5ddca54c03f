//! glibc's settings, by the version of the running library. In: `gnu_get_libc_version`. Out: names with the values that they take.
//!
//! Each value beyond a bound is ignored by glibc without a word: `do_set_tcache_max` and the other `do_set_...` in malloc/malloc.c.
//! Bounds and names of versions: malloc/malloc.c and elf/dl-tunables.list of glibc 2.36, 2.42, 2.43 and 2.44.

use crate::setting::{Kind, Setting};

const COUNT: Kind = Kind::Number { min: 0, max: i32::MAX as i64 };

/// How many there are. Those that later versions lack are the last.
const ALL: usize = 12;

/// The settings of a version whose thread caches hold blocks of up to so many bytes.
const fn with(tcache_max: u64) -> [Setting; ALL] {
    [
        Setting::new(
            "arena_max",
            Kind::Number { min: 1, max: i32::MAX as i64 },
            "most arenas; default 8 per core up to glibc 2.43",
        ),
        Setting::new(
            "arena_test",
            Kind::Number { min: 1, max: i32::MAX as i64 },
            "arenas before the cores are counted",
        ),
        Setting::new("tcache_count", Kind::Number { min: 0, max: 65535 }, "blocks of a size that a thread cache holds"),
        Setting::new("tcache_max", Kind::Size { min: 0, max: tcache_max }, "largest block that a thread cache holds"),
        Setting::new("trim_threshold", Kind::SIZE, "free bytes at the top before they go back; ends adaptation"),
        Setting::new(
            "mmap_threshold",
            Kind::Size { min: 0, max: 32 << 20 },
            "blocks from this size are mapped; ends adaptation",
        ),
        Setting::new("top_pad", Kind::SIZE, "bytes asked of the system beyond need; ends adaptation"),
        Setting::new("mmap_max", COUNT, "most mapped blocks at a time; ends adaptation"),
        Setting::new("hugetlb", Kind::Number { min: 0, max: 2 }, "0 no huge pages, 1 madvise, 2 the huge page pool"),
        Setting::new("perturb", Kind::Number { min: 0, max: 255 }, "byte that freed memory is filled with; 0 off"),
        Setting::new("tcache_unsorted_limit", COUNT, "unsorted blocks looked at to fill a thread cache; 0 no limit"),
        Setting::new("mxfast", Kind::Size { min: 0, max: 160 }, "largest block in the fast bins; up to glibc 2.42"),
    ]
}

/// `MAX_TCACHE_SIZE`: 64 sizes of 16 bytes each, less a header.
static TO_2_41: [Setting; ALL] = with(1032);
/// Since 2.42 twelve more sizes are powers of two, up to `MAX_TCACHE_LARGE_SIZE`; by default a thread cache still ends at 1032 bytes.
static FROM_2_42: [Setting; ALL] = with(4 << 20);

/// The settings of the running library.
#[inline]
pub fn settings() -> &'static [Setting] {
    of(release(super::version()))
}

/// Names that are no mistake in a variable, and have no effect here: `check` is read only where libc_malloc_debug.so is preloaded.
#[inline]
pub fn also() -> &'static str {
    if release(super::version()) < (2, 43) { "check=number" } else { "check=number mxfast=number" }
}

/// `2.36` as 2 and 36. What cannot be read is taken for the oldest: its bounds hold in all.
fn release(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor),
        _ => (2, 0),
    }
}

fn of(release: (u32, u32)) -> &'static [Setting] {
    if release < (2, 42) {
        &TO_2_41
    } else if release < (2, 43) {
        &FROM_2_42
    } else if release < (2, 44) {
        // No fast bins: `mxfast` is taken and sets nothing.
        &FROM_2_42[..ALL - 1]
    } else {
        // A thread cache is filled without a look at unsorted blocks.
        &FROM_2_42[..ALL - 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(version: &str, name: &str) -> Option<String> {
        of(release(version)).iter().find(|setting| setting.name == name).map(|setting| setting.kind.wanted())
    }

    #[test]
    fn each_version_has_its_own_bounds_and_names() {
        for (version, tcache_max) in [("2.36", "0 to 1032"), ("2.41", "0 to 1032"), ("2.42", "0 to 4194304")] {
            assert_eq!(bound(version, "tcache_max"), Some(format!("a size from {tcache_max} bytes")), "{version}");
        }
        assert!(bound("2.42", "mxfast").is_some() && bound("2.43", "mxfast").is_none());
        assert!(bound("2.43", "tcache_unsorted_limit").is_some() && bound("2.44", "tcache_unsorted_limit").is_none());
        assert_eq!(bound("2.44.9000", "mxfast"), None);
        assert_eq!(of(release("unknown")).len(), ALL);
    }

    /// glibc's own list of the running version: `ld.so --list-tunables`.
    #[test]
    fn the_table_is_that_of_the_running_library() {
        let loader = super::super::loader().expect("this process has a loader");
        let output = std::process::Command::new(loader).arg("--list-tunables").output().expect("the loader runs");
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = listed.lines().filter_map(|line| line.strip_prefix("glibc.malloc."));
        let names: Vec<&str> = lines.clone().filter_map(|line| line.split(':').next()).collect();
        for name in &names {
            let is_known = settings().iter().any(|setting| setting.name == *name)
                || also().split(' ').any(|row| row.split('=').next() == Some(name));
            assert!(is_known, "glibc {} has a tunable {name} that the table lacks", super::super::version());
        }
        for setting in settings() {
            assert!(names.contains(&&*setting.name), "glibc {} has no {}", super::super::version(), setting.name);
        }
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => text.parse().unwrap(),
        };
        for line in lines {
            let Some((name, rest)) = line.split_once(": ") else { continue };
            let Some(setting) = settings().iter().find(|setting| setting.name == name) else { continue };
            let (_, bounds) = rest.split_once("(min: ").unwrap();
            let (least, most) = bounds.trim_end_matches(')').split_once(", max: ").unwrap();
            let (min, max) = match setting.kind {
                Kind::Number { min, max } => (min as u64, max as u64),
                Kind::Size { min, max } => (min, max),
                _ => panic!("{name}: a tunable is a number"),
            };
            assert!(number(least) <= min && max <= number(most), "{line}: the table has {min} to {max}");
        }
    }
}
