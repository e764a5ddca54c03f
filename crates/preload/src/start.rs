//! The constructor of a preload, the first of the process. In: the process's variables. Out: an allocator with its
//! settings, before the first allocation, and the first line of the proof.

use std::ffi::{CStr, c_char};

use allocanary_facts::system;
use allocanary::__private::{InstallSettings, Value};
use allocanary::budget::LimitSource;
use allocanary_facts::MEMORY_BUDGET;
use allocanary_facts::notice::NoticeWriter;
use allocanary_sys::sys;

use crate::complain::complain;
use crate::settings::{self, Problem, Settings};
use crate::this::This;
use crate::{budget, cores, counted, opened, profiled, proof, waits};

/// The path of the loader of programs, for the file's `.interp`.
#[cfg(target_arch = "x86_64")]
pub const LOADER: &[u8; 28] = b"/lib64/ld-linux-x86-64.so.2\0";
/// The path of the loader of programs, for the file's `.interp`.
#[cfg(target_arch = "aarch64")]
pub const LOADER: &[u8; 27] = b"/lib/ld-linux-aarch64.so.1\0";

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Runs before any code of the program or of another library, and allocates nothing.
///
/// The functions that it calls when no variable is set are inline, so that their code is in the binary's own object file, next to
/// `malloc`. The reason: the kernel maps 64 KiB of the file around each page that runs.
///
/// # Safety
///
/// `variables` are the process's, and this is its first constructor.
#[inline]
pub unsafe fn start(this: &'static This, variables: *mut *mut c_char) {
    // The C library's own constructor has not run yet. Allocators and this crate read the variables from the C library, so the
    // variables are set here. SAFETY: there is no other thread yet.
    unsafe {
        if environ.is_null() {
            environ = variables;
        }
    }
    // SAFETY: no other thread changes the environment yet.
    let variable = |name: &CStr| unsafe { sys::variable(name) };
    if let Some(text) = variable(cores::VARIABLE)
        && let Err(wanted) = cores::set(text)
    {
        complain(cores::VARIABLE, text, wanted);
    }
    // glibc's malloc counts processors inside the C library, where this preload cannot replace the answer.
    let rule = this.allocator.per_core().filter(|_| this.allocator.name() == system::NAME);
    let default = rule.zip(cores::emulated()).map(|(rule, cores)| ("arena_max", Value::Number(rule.on(cores))));
    let settings = match variable(settings::VARIABLE) {
        // Without a variable, nothing is read, so that only inline code runs.
        None if default.is_none() => Ok(Settings::default()),
        // SAFETY: this is the only call, in the constructor.
        text => unsafe { settings::read(text.unwrap_or_default(), &this.table, default) },
    };
    if let Err(problem) = settings {
        complain(settings::VARIABLE, problem.part.as_bytes(), problem.wanted);
    }
    leave_notice(this, &settings);
    let Settings { allocator, idle, budget, profile } = settings.unwrap_or_default();
    this.allocator.boot(&InstallSettings { settings: allocator, conf: this.conf });
    (this.begin)();
    waits::find();
    opened::find();
    if let Some(every) = idle {
        waits::turn_on(this, every);
    }
    if let Some(source) = budget
        && !budget::turn_on(this, source)
    {
        complain(settings::VARIABLE, MEMORY_BUDGET.as_bytes(), "this build of the allocator does not tell what threads allocate");
    }
    if let Some(mean) = profile {
        profile_by(this, mean);
    }
    if let Some(path) = variable(proof::VARIABLE) {
        proof::at_load(this, path, settings.err());
    }
}

/// Turns the profile on, after the budget: the profile's entries also count for the budget.
#[cold]
fn profile_by(this: &'static This, mean: u64) {
    if !profiled::turn_on(mean) {
        return complain(settings::VARIABLE, b"profile", "there is no memory for its table");
    }
    if !this.is_direct && allocanary::budget::is_on() {
        counted::share_with_budget();
    }
    (this.profile)();
}

/// Leaves the settings in memory for tools that read the process from outside. Without settings nothing is written.
#[inline]
fn leave_notice(this: &This, settings: &Result<Settings, Problem>) {
    let begin = || NoticeWriter::begin("preload", this.allocator.name());
    match settings {
        Ok(Settings { allocator: [], idle: None, budget: None, profile: None }) => {}
        Ok(Settings { allocator, idle, budget, profile }) => {
            let mut notice = begin();
            notice.settings(allocator, this.allocator.per_core().as_ref());
            if let Some(every) = idle {
                Value::Number(every.as_millis() as u64).with_text(None, |millis| notice.line(&["thread_idle=", millis, "ms"]));
            }
            match budget {
                Some(LimitSource::Container) => notice.line(&["memory_budget=container"]),
                Some(LimitSource::Bytes(bytes)) => {
                    Value::Number(*bytes).with_text(None, |bytes| notice.line(&["memory_budget=", bytes]));
                }
                None => {}
            }
            if let Some(mean) = profile {
                Value::Number(*mean).with_text(None, |mean| notice.line(&["profile=", mean]));
            }
        }
        Err(Problem { part, wanted }) => begin().line(&["refused `", part, "`: ", wanted]),
    }
}
