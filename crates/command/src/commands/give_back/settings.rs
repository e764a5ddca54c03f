//! `allocanary give-back --settings`: changes settings of a running jemalloc. In: a process, settings. Out: what was set,
//! and a line that sets it at the next start.

use std::process::ExitCode;

use super::confirmed::{REFUSED, confirmed};
use crate::args::GiveBackFlags;
use crate::commands::terminal;
use allocanary_doctor::host::Surroundings;
use allocanary_inside::give_back::GiveBackResult;
use allocanary_inside::give_back::Limits;
use allocanary_inside::give_back::carry_out;
use allocanary_inside::give_back::settings::REMEDY;
use allocanary_inside::give_back::settings::RuntimeSetting;
use allocanary_inside::give_back::settings::count_arenas;
use allocanary_inside::give_back::settings::variable;
use allocanary_rows::error::Error;
use allocanary_rows::error::Result;

/// Sets the settings.
pub fn set(flags: &GiveBackFlags, pid: u32, limits: Limits) -> Result<ExitCode> {
    let parsed: std::result::Result<Vec<RuntimeSetting>, String> =
        flags.settings.iter().map(|text| RuntimeSetting::parse(text)).collect();
    let settings = parsed.map_err(|error| Error::Input(format!("give-back: {error}")))?;
    if !flags.yes && !confirmed()? {
        return Ok(ExitCode::from(REFUSED));
    }
    match make(pid, &settings, limits) {
        Ok(done) => {
            let line = keep(&settings, &done.function.name);
            let set = flags.settings.join(", ");
            let hint = if is_lost(&settings, Surroundings::of(pid).forks) { FORKS } else { "" };
            terminal::print_plain(&format!(
                "process {pid}: {set} is in force. To keep it after a restart:\n  {line}\n{hint}"
            ))
        }
        Err(reason) => {
            terminal::tell(format_args!("give-back: {reason}"));
            Ok(ExitCode::from(REFUSED))
        }
    }
}

/// Reads how many arenas there are, and makes the calls.
fn make(pid: u32, settings: &[RuntimeSetting], limits: Limits) -> std::result::Result<GiveBackResult, String> {
    let counted = carry_out(pid, REMEDY, &[count_arenas()], limits).map_err(|refusal| refusal.to_string())?;
    failed(&counted)?;
    let out = counted.calls.first().and_then(|made| made.out.first_chunk::<4>().copied());
    let arenas = out.map_or(0, u32::from_le_bytes);
    let calls: Vec<_> = settings.iter().flat_map(|setting| setting.calls(arenas)).collect();
    let done = carry_out(pid, REMEDY, &calls, limits).map_err(|refusal| refusal.to_string())?;
    failed(&done)?;
    Ok(done)
}

fn failed(done: &GiveBackResult) -> std::result::Result<(), String> {
    match done.failure() {
        None => Ok(()),
        Some((name, error)) => {
            Err(format!("jemalloc refused {name}: {error}. Other settings of this command are in force"))
        }
    }
}

/// What is said of a program that forks.
const FORKS: &str = "The program forks, and a thread of jemalloc does not survive a fork: in the children \
                     dirty_decay_ms:0,muzzy_decay_ms:0 does what background_thread:true does in the first process.\n";

/// Whether a setting is of no use in the forked children of a program.
fn is_lost(settings: &[RuntimeSetting], forks: bool) -> bool {
    forks && settings.contains(&RuntimeSetting::Background(true))
}

/// The variable that has the settings for the next start.
fn keep(settings: &[RuntimeSetting], function: &str) -> String {
    let conf: Vec<String> = settings.iter().map(|setting| setting.conf()).collect();
    format!("{}={}", variable(function), conf.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_background_thread_is_lost_where_the_program_forks() {
        let on = [RuntimeSetting::Dirty(0), RuntimeSetting::Background(true)];
        assert!(is_lost(&on, true) && !is_lost(&on, false) && !is_lost(&[RuntimeSetting::Background(false)], true));
    }

    #[test]
    fn the_line_that_keeps_settings_has_them_all() {
        let settings = [RuntimeSetting::Background(true), RuntimeSetting::Dirty(1000)];
        assert_eq!(keep(&settings, "_rjem_mallctl"), "_RJEM_MALLOC_CONF=background_thread:true,dirty_decay_ms:1000");
    }
}
