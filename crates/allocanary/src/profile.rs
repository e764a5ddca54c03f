//! A profile of a service's own heap. In: `install!(..., profile = "512KiB")`, the environment. Out: which call sites hold the live bytes,
//! in the format of pprof.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use allocanary_profile::weight::{MEANS, WANTED};
use allocanary_sampler::{self as sampler, SamplerPlace};
use allocanary_sys::sys;

use crate::install::installation;
use allocanary_facts::setting::const_bytes;

/// The type of an HTTP answer with [`pprof`]'s bytes.
pub const CONTENT_TYPE: &str = "application/octet-stream";

/// The environment variable. It takes precedence over the code.
const VARIABLE: &CStr = c"ALLOCANARY_PROFILE";

/// Whether there was no memory for the table.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Why there is no profile.
#[derive(Debug)]
pub struct Error(allocanary_profile::reader::ProfileTrouble);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

/// The profile of this process's heap, in the format of pprof, compressed by gzip. A service can answer `GET /debug/pprof/heap` with
/// it. `go tool pprof`, Pyroscope, Parca and the OpenTelemetry collector read this format.
///
/// The profile has what the sampled call sites have allocated since the start (`alloc_objects`, `alloc_space` in bytes), and how much
/// of it is live (`inuse_objects`, `inuse_space`). These are estimates from samples, which are right on average. The program needs
/// `profile = ...` in its `install!`. The profile's comments say what limits the figures, such as blocks from before [`turn_on`]: `go
/// tool pprof -comments`.
///
/// The first call may take seconds in a large program, because it reads the program's line tables for the names. Later calls read them
/// only if there are new stacks. Each call drops the tables at its end.
///
/// # Errors
///
/// The program does not sample, `/proc/self/maps` cannot be read, or [`before_filter`] was called.
///
/// ```
/// allocanary::install!(system, profile = "512KiB");
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let kept: Vec<String> = (0..100_000).map(|at| format!("a line of a service: {at}")).collect();
///     let answer = allocanary::profile::pprof()?;
///     assert!(answer.starts_with(&[0x1f, 0x8b]) && !kept.is_empty());
///     Ok(())
/// }
/// ```
pub fn pprof() -> Result<Vec<u8>, Error> {
    allocanary_sampler::service::pprof().map_err(Error)
}

/// Whether this process is sampled.
pub fn is_on() -> bool {
    sampler::is_on()
}

/// Begins to sample a program whose `install!` has `profile = off`, for the life of the process. From now on, one byte in `mean` of the
/// allocated bytes is sampled on average. Blocks from before are not in the profile. Does nothing if the profile is on.
///
/// # Errors
///
/// The `install!` has no `profile`, the mean distance is not from 1 KiB to 1 TiB, or there is no memory for the table (1.1 MiB of addresses).
pub fn turn_on(mean: u64) -> crate::error::Result<()> {
    use crate::error::Error;
    let failed = |why: &str| Error::Refused { allocator: "profile", what: "turning it on", why: why.into() };
    if installation().is_none_or(|installation| installation.profile.is_none()) {
        return Err(failed("the program's install! has no `profile = off`"));
    }
    if !(MEANS[0]..=MEANS[1]).contains(&mean) {
        return Err(failed("wanted a mean distance of samples from 1KiB to 1TiB"));
    }
    if sampler::turn_on(mean, SamplerPlace::RunningProgram) {
        Ok(())
    } else {
        Err(failed("there is no memory for its table"))
    }
}

/// Ends sampling for good. Call it before this process gives itself a filter of system calls (seccomp) that may forbid what the walk of a
/// stack uses: `openat` of `/proc/self/maps`, and `process_vm_readv` of itself. Blocks that are freed still leave the table, and
/// `allocanary who PID` still reads the table. [`pprof`] then fails, because it opens files. When this function returns, walks and profiles
/// of other threads have ended. It may wait for seconds for a profile. The preloads notice such a filter themselves.
///
/// Has no effect on a process without a profile.
pub fn before_filter() {
    allocanary_sampler::service::before_filter();
}

/// The mean distance of a text, 0 for `off`. Any other text does not compile.
#[doc(hidden)]
pub const fn mean_of(text: &str) -> u64 {
    if allocanary_facts::setting::equal(text, "off") {
        return 0;
    }
    match const_bytes(text) {
        Some(mean) => mean_in_range(mean),
        None => panic!("install!: profile is off, or a mean distance of samples from 1KiB to 1TiB such as \"512KiB\""),
    }
}

/// The mean distance as a number. A number out of range does not compile.
#[doc(hidden)]
pub const fn mean_in_range(mean: u64) -> u64 {
    assert!(
        mean >= MEANS[0] && mean <= MEANS[1],
        "install!: profile is off, or a mean distance of samples from 1KiB to 1TiB such as \"512KiB\""
    );
    mean
}

/// Turns the profile on, before the first allocation.
#[doc(hidden)]
pub fn boot<const MEAN: u64>() {
    // SAFETY: `boot` runs before `main`.
    let text = unsafe { sys::variable(VARIABLE) }.and_then(|text| std::str::from_utf8(text).ok());
    let mean = text.and_then(asked).unwrap_or(MEAN);
    if mean > 0 {
        IS_REFUSED.store(!sampler::turn_on(mean, SamplerPlace::Program), Relaxed);
    }
}

/// The mean distance in the variable; `None` if the text is invalid.
fn asked(text: &str) -> Option<u64> {
    if text == "off" {
        return Some(0);
    }
    const_bytes(text).filter(|mean| (MEANS[0]..=MEANS[1]).contains(mean))
}

/// The problems with the variable and with the table, one line each.
pub(crate) fn problems() -> Vec<String> {
    let variable = std::env::var_os(VARIABLE.to_string_lossy().as_ref());
    let found = variable.as_ref().map(|found| found.to_string_lossy());
    let mut problems = Vec::new();
    if let Some(found) = found.filter(|found| asked(found).is_none()) {
        problems.push(format!("ALLOCANARY_PROFILE: {WANTED}, found `{found}`"));
    }
    if IS_REFUSED.load(Relaxed) {
        problems.push("profile: it is off: there is no memory for its table".into());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_mean_distance_or_off() {
        assert_eq!([mean_of("off"), mean_of("512KiB"), mean_of("1m")], [0, 512 << 10, 1 << 20]);
        assert_eq!(
            ["off", "1KiB", "1024g", "512", "2048GiB", "often", ""].map(asked),
            [Some(0), Some(1 << 10), Some(1 << 40), None, None, None, None]
        );
    }
}
