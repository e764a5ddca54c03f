//! The linked mimalloc v3. In: its option list and its statistics, both as the text that mimalloc prints. Out: settings,
//! counters, purge.
//!
//! Options are read by name, never by number: the numbers differ between v2 and v3, and a wrong number silently reads another
//! option. Statistics are read from mimalloc's JSON for the same reason.

mod forks;
mod idle;
mod keeping;
mod uses;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;

use libmimalloc_sys as sys;

use crate::allocator::{Allocator, Cannot, Counters, Keeping, PerCore, Uses, sealed};
use crate::allocators::effect::{no_pool_pages, unless_thp_is, without_effect};
use crate::error::{self, Pages};
use allocanary_facts::environment::Environment;
use allocanary_facts::mimalloc::{ALSO, ENVIRONMENT, NAME, SETTINGS};
use allocanary_facts::request::{InstallSettings, Value};
use allocanary_facts::setting::{Setting, SettingKind};

/// The mimalloc that libmimalloc-sys builds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mimalloc;

/// The function that receives the text that mimalloc prints.
type Output = unsafe extern "C" fn(message: *const c_char, argument: *mut c_void);

unsafe extern "C" {
    /// Prints a line `option 'NAME': VALUE UNIT` for each option. libmimalloc-sys does not declare it.
    fn mi_options_print_out(output: Output, argument: *mut c_void);
}

impl sealed::Sealed for Mimalloc {}

impl Allocator for Mimalloc {
    #[inline]
    fn name(&self) -> &'static str {
        NAME
    }

    #[inline]
    fn write_version(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        // SAFETY: reads a constant. 30302 is 3.3.2.
        let version = unsafe { sys::mi_version() };
        let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
        write!(out, "{major}.{minor}.{patch}")
    }

    #[inline]
    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    #[inline]
    fn also(&self) -> &'static str {
        ALSO
    }

    #[inline]
    fn environment(&self) -> Environment {
        ENVIRONMENT
    }

    #[inline]
    fn per_core(&self) -> Option<PerCore> {
        None // mimalloc has a heap for each thread, and nothing for each core
    }

    #[inline]
    fn effective(&self, _wanted: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut printed = Vec::<u8>::new();
        let argument: *mut Vec<u8> = &mut printed;
        // SAFETY: `append` gets the vector that outlives the call, from this thread only.
        unsafe { mi_options_print_out(append, argument.cast()) };
        String::from_utf8_lossy(&printed).lines().filter_map(option_line).collect()
    }

    #[inline]
    fn each_effective(&self, mut each: &mut dyn FnMut(&str, &str)) {
        unsafe extern "C" fn tell(message: *const c_char, argument: *mut c_void) {
            // SAFETY: `argument` is the function below, and mimalloc's message, a line, ends in NUL.
            let (each, message) =
                unsafe { (&mut *argument.cast::<&mut dyn FnMut(&str, &str)>(), CStr::from_ptr(message)) };
            let line = message.to_str().unwrap_or_default().trim_ascii_end();
            let Some((setting, number, in_kib)) = option_of(line) else { return };
            match number.parse::<u64>().ok().and_then(|number| number.checked_mul(1024)).filter(|_| in_kib) {
                Some(bytes) => Value::Number(bytes).with_text(None, |bytes| each(&setting.name, bytes)),
                None => each(&setting.name, number),
            }
        }
        let argument: *mut &mut dyn FnMut(&str, &str) = &mut each;
        // SAFETY: `tell` gets the function, which outlives the call, from this thread only.
        unsafe { mi_options_print_out(tell, argument.cast()) };
    }

    #[inline]
    fn unproven(&self, settings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        without_effect(settings, |name, value| match name {
            "guarded_min" | "guarded_max" | "guarded_precise" | "guarded_sample_rate" | "guarded_sample_seed" => {
                Some("this build has no guard pages (MI_GUARDED)".into())
            }
            "os_tag" => Some("tags are for macOS".into()),
            "retry_on_oom" => Some("retries are for Windows".into()),
            "reserve_huge_os_pages_at" => no_pool_pages(),
            "reserve_huge_os_pages" | "allow_large_os_pages" if value != "0" => no_pool_pages(),
            "allow_thp" if value != "0" => unless_thp_is(&["madvise", "always"]),
            _ => None,
        })
    }

    #[inline]
    fn counters(&self) -> Counters {
        forks::wait_at_forks();
        forks::TEXT.with(|text, _| {
            // SAFETY: mimalloc writes at most the length we give, with a NUL at the end.
            let written = unsafe { sys::mi_stats_get_json(text.len(), text.as_mut_ptr().cast()) };
            if written.is_null() {
                return Counters::default();
            }
            let end = text.iter().position(|byte| *byte == 0).unwrap_or(0);
            let text = &text[..end];
            // `malloc_*` is counted only if mimalloc is built with MI_STAT, which the crate does not do: it would slow
            // every allocation down. So allocated, active and metadata are unknown.
            let committed = json_number(text, "committed", "current");
            let reserved = json_number(text, "reserved", "current");
            Counters {
                resident: committed,
                retained: reserved.zip(committed).map(|(reserved, committed)| reserved.saturating_sub(committed)),
                arenas: json_number(text, "arena_count", ""),
                ..Counters::default()
            }
        })
    }

    #[inline]
    fn uses(&self) -> Uses {
        uses::uses()
    }

    #[inline]
    fn boot(&self, request: &InstallSettings) {
        for (name, value) in request.settings {
            let Some((number, in_kib)) = option_number(name) else { continue };
            value.with_text(None, |text| {
                let Ok(value) = text.parse::<i64>() else { return };
                // This sets only the default: a value in the environment was read before and stays.
                // SAFETY: the number is one that mimalloc has just listed.
                unsafe { sys::mi_option_set_default(number, if in_kib { value / 1024 } else { value }) };
            });
        }
    }

    #[inline]
    fn most_arenas(&self) -> error::Result<Option<u32>> {
        Ok(None) // its arenas are reservations of address space; threads are not spread over them
    }

    #[inline]
    fn set_decay(&self, pages: Pages, millis: i64) -> error::Result<()> {
        match (pages, option_number("purge_delay")) {
            (Pages::Dirty, Some((number, _))) => {
                // SAFETY: the number is one that mimalloc has just listed.
                unsafe { sys::mi_option_set(number, millis) };
                Ok(())
            }
            (Pages::Dirty, None) => self.cannot("this build has no option purge_delay"),
            (Pages::Muzzy, _) => self.cannot("it has no muzzy pages; purge_decommits=0 frees lazily"),
        }
    }

    #[inline]
    fn decay(&self, pages: Pages) -> error::Result<i64> {
        match (pages, option_number("purge_delay")) {
            // SAFETY: the number is one that mimalloc has just listed.
            (Pages::Dirty, Some((number, _))) => Ok(unsafe { sys::mi_option_get(number) }),
            (Pages::Dirty, None) => self.cannot("this build has no option purge_delay"),
            (Pages::Muzzy, _) => self.cannot("it has no muzzy pages"),
        }
    }

    #[inline]
    fn purge(&self) -> error::Result<()> {
        // SAFETY: callable from any thread at any time.
        unsafe { sys::mi_collect(true) };
        Ok(())
    }

    #[inline]
    fn thread_idle(&self, thread: &crate::idle::IdleThread, every: std::time::Duration) -> error::Result<bool> {
        Ok(idle::give_back(thread, every))
    }

    #[inline]
    fn keep(&self, _bytes: u64) -> error::Result<Keeping> {
        keeping::keep(self)
    }

    #[inline]
    fn stop_keeping(&self, keeping: &Keeping) {
        keeping::stop(self, keeping);
    }
}

/// The number of an option in the linked mimalloc, and whether its value is in KiB. The number is the option's place in
/// the list that mimalloc prints. Allocates nothing, so that it can be called before the first allocation.
#[inline]
fn option_number(name: &str) -> Option<(sys::mi_option_t, bool)> {
    struct Search<'a> {
        name: &'a str,
        next: sys::mi_option_t,
        found: Option<(sys::mi_option_t, bool)>,
    }
    unsafe extern "C" fn look(message: *const c_char, argument: *mut c_void) {
        // SAFETY: `argument` is the search below, and mimalloc's message ends in NUL.
        let (search, message) = unsafe { (&mut *argument.cast::<Search>(), CStr::from_ptr(message)) };
        let Some(rest) = message.to_bytes().strip_prefix(b"option '") else { return };
        if rest.strip_prefix(search.name.as_bytes()).is_some_and(|rest| rest.starts_with(b"'")) {
            search.found = Some((search.next, rest.trim_ascii_end().ends_with(b"KiB")));
        }
        search.next += 1;
    }
    let mut search = Search { name, next: 0, found: None };
    let argument: *mut Search = &mut search;
    // SAFETY: `look` gets the search, which outlives the call, from this thread only.
    unsafe { mi_options_print_out(look, argument.cast()) };
    search.found
}

/// Adds what mimalloc prints to the vector behind `argument`.
#[inline]
unsafe extern "C" fn append(message: *const c_char, argument: *mut c_void) {
    // SAFETY: `effective` passes a vector, and mimalloc a string that ends in NUL.
    let (printed, message) = unsafe { (&mut *argument.cast::<Vec<u8>>(), CStr::from_ptr(message)) };
    printed.extend_from_slice(message.to_bytes());
}

/// `option 'arena_reserve': 1048576 KiB` as a setting and its canonical value.
#[inline]
fn option_line(line: &str) -> Option<(String, String)> {
    let (setting, number, in_kib) = option_of(line)?;
    let value = if in_kib { number.parse::<u64>().ok()?.checked_mul(1024)?.to_string() } else { number.to_string() };
    Some((setting.name.to_string(), value))
}

/// The setting, its number in mimalloc's list, and whether its value is in KiB.
#[inline]
fn option_of(line: &str) -> Option<(&'static Setting, &str, bool)> {
    let (name, value) = line.strip_prefix("option '")?.split_once("': ")?;
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    let setting = SETTINGS.iter().find(|setting| setting.name == name)?;
    Some((setting, number, matches!(setting.kind, SettingKind::Size { .. }) && unit.trim() == "KiB"))
}

/// The number under `"key": {.. "field": N ..}`, or `"key": N` if `field` is empty. mimalloc's own JSON is flat enough
/// for a search, and a parser would allocate between two readings.
#[inline]
fn json_number(text: &[u8], key: &str, field: &str) -> Option<u64> {
    let after = |text: &'_ [u8], key: &str| -> Option<usize> {
        let quoted = |at: usize| {
            text[at..].first() == Some(&b'"')
                && text[at + 1..].starts_with(key.as_bytes())
                && text.get(at + 1 + key.len()) == Some(&b'"')
        };
        (0..text.len()).find(|at| quoted(*at)).map(|at| at + key.len() + 2)
    };
    let mut rest = &text[after(text, key)?..];
    if !field.is_empty() {
        rest = &rest[after(rest, field)?..];
    }
    // A minus sign ends the search, because a counter is not negative.
    let from = rest.iter().position(|byte| byte.is_ascii_digit() || *byte == b'-')?;
    let digits = rest[from..].iter().take_while(|byte| byte.is_ascii_digit());
    let mut number = None;
    for digit in digits {
        number = Some(number.unwrap_or(0_u64) * 10 + u64::from(digit - b'0'));
    }
    number
}

#[cfg(test)]
mod tests;
