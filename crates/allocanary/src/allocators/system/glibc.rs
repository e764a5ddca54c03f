//! glibc's malloc, ptmalloc: its settings, its statistics, and its functions for tuning. In: the loader's tunables,
//! mallopt, mallinfo2, malloc_info. Out: the values of the entry `system`.

mod arenas;
mod keeping;
mod loader_table;
mod own_arena;

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::process::Command;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use crate::allocator::{Counters, PerCore, Uses};
use crate::allocators::effect::{no_pool_pages, unless_thp_is, without_effect};
use crate::error;
use allocanary_facts::request::{Decimal, InstallSettings};
use allocanary_facts::system::PER_CORE;
use allocanary_facts::system::glibc::{MALLOPT, SETTABLE, settings};
use allocanary_sys::proc::maps;
use allocanary_sys::sys;

pub use keeping::{keep, keep_little, stop as stop_keeping};
pub use own_arena::give_back;

/// The values that `boot` has set through `mallopt`, in the order of [`SETTABLE`]; -1 means none. glibc has no call to
/// read them.
static APPLIED: [AtomicI64; SETTABLE.len()] = [const { AtomicI64::new(-1) }; SETTABLE.len()];

/// The values that were set through `mallopt` after `boot`, in the same order; -1 means none.
static NOW: [AtomicI64; SETTABLE.len()] = [const { AtomicI64::new(-1) }; SETTABLE.len()];

#[inline]
pub fn boot(request: &InstallSettings) {
    if request.settings.is_empty() {
        return;
    }
    // SAFETY: `boot` runs before `main`.
    let variable = |name| unsafe { sys::variable(name) };
    let tunables = variable(c"GLIBC_TUNABLES").unwrap_or_default();
    for (name, value) in request.settings {
        let Some(at) = SETTABLE.iter().position(|setting| setting.name == *name) else { continue };
        let (option, own_variable) = MALLOPT[at];
        let named = tunables.split(|byte| *byte == b':').filter_map(|pair| pair.strip_prefix(b"glibc.malloc."));
        let in_environment =
            named.into_iter().any(|pair| pair.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")));
        if in_environment || (!own_variable.is_empty() && variable(own_variable).is_some()) {
            continue; // the environment takes precedence
        }
        value.with_text(Some(&PER_CORE), |text| {
            let Ok(number) = text.parse::<c_int>() else { return };
            // SAFETY: takes two numbers, and 1 is success.
            if unsafe { libc::mallopt(option, number) } == 1 {
                APPLIED[at].store(i64::from(number), Ordering::Relaxed);
            }
        });
    }
}

/// `arena_max` if it is set, otherwise the number that glibc derives from the cores. glibc counts the cores that are
/// online and ignores the affinity. The rule is that of glibc up to 2.43. A change that was accepted in June 2026 makes it
/// one arena per core, and at least 8.
#[inline]
pub fn most_arenas() -> error::Result<Option<u32>> {
    let set = applied("arena_max").and_then(|most| u32::try_from(most).ok()).or_else(arena_max_tunable);
    // SAFETY: reads a number.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as u32;
    Ok(Some(set.filter(|most| *most > 0).unwrap_or(cores * 8)))
}

/// The tunable `arena_max`; 0 if it is not set. It is fixed when the process starts: a later change of the variable has no effect. So the
/// loader, an expensive child process, is started only once.
#[inline]
fn arena_max_tunable() -> Option<u32> {
    const UNASKED: u32 = u32::MAX;
    static TOOK: AtomicU32 = AtomicU32::new(UNASKED);
    let took = TOOK.load(Ordering::Relaxed);
    if took != UNASKED {
        return Some(took);
    }
    // If the loader could not be started, the next call tries again.
    let tunables = tunables()?;
    let took = tunables.get("arena_max").and_then(|most| most.parse::<u32>().ok()).unwrap_or(0);
    TOOK.store(took, Ordering::Relaxed);
    Some(took)
}

/// The value that `boot` has set for a setting.
#[inline]
fn applied(name: &str) -> Option<i64> {
    let at = SETTABLE.iter().position(|setting| setting.name == name)?;
    Some(APPLIED[at].load(Ordering::Relaxed)).filter(|value| *value >= 0)
}

/// The tunables as the loader of this process keeps them, overridden by the values that `boot` has set. None if the
/// loader's table is not found.
#[inline]
pub fn each_effective(each: &mut dyn FnMut(&str, &str)) {
    loader_table::each(|name, number| {
        let Some(name) = name.strip_prefix("glibc.malloc.") else { return };
        let Some(setting) = settings().iter().find(|setting| setting.name == name) else { return };
        Decimal::of(applied(&setting.name).map_or(number.into(), i128::from)).with(|number| each(name, number));
    });
}

#[inline]
pub fn per_core() -> Option<PerCore> {
    Some(PER_CORE)
}

/// The tunables, overridden by the values that `boot` has set.
#[inline]
pub fn effective() -> BTreeMap<String, String> {
    let mut found = tunables().unwrap_or_default();
    for setting in SETTABLE {
        if let Some(applied) = applied(&setting.name) {
            found.insert(setting.name.to_string(), applied.to_string());
        }
    }
    found
}

/// The tunables that the dynamic loader took from our environment. glibc has no call that reads a tunable; its loader's
/// `--list-tunables` is the documented way. Our own loader in our own environment reads the same values. A static
/// binary has no loader; then only the values that `boot` set are known.
#[inline]
fn tunables() -> Option<BTreeMap<String, String>> {
    let output = Command::new(loader()?).arg("--list-tunables").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().filter_map(tunable_line).collect())
}

/// The path of the dynamic loader that is mapped into this process.
#[inline]
fn loader() -> Option<String> {
    let maps = maps::own().ok()?;
    let is_loader =
        |path: &&str| path.rsplit('/').next().is_some_and(|name| name.starts_with("ld-") || name.starts_with("ld64."));
    let mut paths = maps::lines(&maps).filter_map(|line| str::from_utf8(line.file()?).ok());
    // An update may have replaced it since. Its successor at the same path reads the same variables.
    paths.find(is_loader).map(|path| path.trim_end_matches(" (deleted)").to_string())
}

/// `glibc.malloc.arena_max: 0x1 (min: 0x1, max: 0xffff)` as a setting and its canonical value.
#[inline]
fn tunable_line(line: &str) -> Option<(String, String)> {
    let (name, rest) = line.strip_prefix("glibc.malloc.")?.split_once(": ")?;
    let value = rest.split_ascii_whitespace().next()?;
    let number = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => value.parse().ok()?,
    };
    settings().iter().any(|setting| setting.name == name).then(|| (name.to_string(), number.to_string()))
}

/// The values that [`keep`] has set. They are recorded here, because `mallopt` cannot report them.
#[inline]
pub fn changed() -> BTreeMap<String, String> {
    let now = |at: usize| Some(NOW[at].load(Ordering::Relaxed)).filter(|value| *value >= 0);
    let settings = SETTABLE.iter().enumerate();
    settings.filter_map(|(at, setting)| Some((setting.name.to_string(), now(at)?.to_string()))).collect()
}

/// `hugetlb`: 1 requests huge pages where the kernel gives them on request, 2 takes them from the pool.
#[inline]
pub fn unproven(settings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    without_effect(settings, |name, value| match (name, value) {
        ("hugetlb", "1") => unless_thp_is(&["madvise"]),
        ("hugetlb", "2") => no_pool_pages(),
        _ => None,
    })
}

/// glibc does not distinguish the blocks in thread caches from the blocks that the program holds. Nor does it distinguish
/// free pages and the tops of arenas from other free blocks.
#[inline]
pub fn counters() -> Counters {
    // SAFETY: mallinfo2 takes each arena's lock and writes only its own result.
    let info = unsafe { libc::mallinfo2() };
    Counters {
        allocated: Some((info.uordblks + info.hblkhd) as u64),
        mapped: Some((info.arena + info.hblkhd) as u64),
        arenas: arenas::used(),
        ..Counters::default()
    }
}

/// All free memory counts as free within used pages, because glibc does not report its free pages.
#[inline]
pub fn uses() -> Uses {
    let counters = counters();
    let free = counters.mapped.zip(counters.allocated).map(|(mapped, allocated)| mapped.saturating_sub(allocated));
    Uses { free, dirty: Some(0), ..counters.uses() }
}

/// glibc has a call that returns freed memory.
pub const PURGES: bool = true;

#[inline]
pub fn purge() {
    // SAFETY: callable from any thread; walks all arenas and gives back free pages, and the top of the main arena.
    unsafe { libc::malloc_trim(0) };
    own_arena::give_back();
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_facts::setting::SettingKind;
    use allocanary_facts::system::glibc::also;
    use allocanary_sys::sys::glibc_version;

    #[test]
    fn tunables_are_read_in_both_bases() {
        let read = |line| tunable_line(line).map(|(name, value)| format!("{name}={value}"));
        assert_eq!(read("glibc.malloc.arena_max: 0x10 (min: 0x1, max: 0xff)").as_deref(), Some("arena_max=16"));
        assert_eq!(read("glibc.malloc.mmap_max: 7 (min: 0, max: 2147483647)").as_deref(), Some("mmap_max=7"));
        assert_eq!(read("glibc.malloc.check: 0 (min: 0, max: 3)"), None);
        assert_eq!(read("glibc.rtld.nns: 0x4 (min: 0x1, max: 0x10)"), None);
    }

    /// glibc's own list of the running version: `ld.so --list-tunables`.
    #[test]
    fn the_table_is_that_of_the_running_library() {
        let loader = loader().expect("this process has a loader");
        let output = std::process::Command::new(loader).arg("--list-tunables").output().expect("the loader runs");
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = listed.lines().filter_map(|line| line.strip_prefix("glibc.malloc."));
        let names: Vec<&str> = lines.clone().filter_map(|line| line.split(':').next()).collect();
        for name in &names {
            let is_known = settings().iter().any(|setting| setting.name == *name)
                || also().split(' ').any(|row| row.split('=').next() == Some(name));
            assert!(is_known, "glibc {} has a tunable {name} that the table lacks", glibc_version());
        }
        for setting in settings() {
            assert!(names.contains(&&*setting.name), "glibc {} has no {}", glibc_version(), setting.name);
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
                SettingKind::Number { min, max } => (min as u64, max as u64),
                SettingKind::Size { min, max } => (min, max),
                _ => panic!("{name}: a tunable is a number"),
            };
            assert!(number(least) <= min && max <= number(most), "{line}: the table has {min} to {max}");
        }
    }
}
