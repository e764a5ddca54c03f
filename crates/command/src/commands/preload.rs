//! `allocanary preload`: prints where an allocator's library is, and the lines that load it into an unchanged program.

use std::path::Path;
use std::process::ExitCode;

use super::{library, terminal};
use crate::args::PreloadFlags;
use crate::given;
use allocanary_facts::paste::{dockerfile, kubernetes, shell, systemd};
use allocanary_facts::{our, our_names};
use allocanary_rows::error::{Error, Result};
use allocanary_screens::report::paste::FOLDER;

/// The preload that only takes samples.
const PROFILE: &str = "profile";

/// Prints the place and the lines.
pub fn run(flags: &PreloadFlags) -> Result<ExitCode> {
    let name = &flags.allocator;
    let wanted_by = format!("preload {name}");
    let check = |table| {
        let wrong = |(part, wanted)| Error::Input(format!("preload {name}: --settings: `{part}`: {wanted}"));
        given::check_settings(&flags.settings, table).map_err(wrong)
    };
    // This preload leaves the program its own allocator.
    if name == PROFILE {
        check(None)?;
        return terminal::print(page(name, &library::for_loader(name, &wanted_by, &[])?, &flags.settings).as_bytes());
    }
    let (_, ours) = our(name).filter(|(_, ours)| ours.is_built).ok_or_else(|| {
        Error::Input(format!(
            "preload: wanted {} (as far as this build has them) or {PROFILE}, found `{name}`",
            our_names()
        ))
    })?;
    check(Some(&ours.in_preload))?;
    terminal::print(page(name, &library::for_loader(name, &wanted_by, &[])?, &flags.settings).as_bytes())
}

/// The printed page.
fn page(name: &str, library: &Path, settings: &str) -> String {
    let inside = format!("{FOLDER}/preload-{name}");
    let variables = |library: &str| {
        let preload = ("LD_PRELOAD", library.to_string());
        let settings = ("ALLOCANARY_PRELOAD", settings.to_string());
        [Some(preload), Some(settings).filter(|(_, text)| !text.is_empty())].into_iter().flatten()
    };
    let lines = |library: &str, line: fn(&str, &str) -> String| -> String {
        variables(library).map(|(name, value)| format!("  {}\n", line(name, &value))).collect()
    };
    let here: Vec<String> = variables(&library.to_string_lossy()).map(|(name, value)| shell(name, &value)).collect();
    format!(
        "library  {}\n\n\
         # a program, here\n  {} PROGRAM\n\n\
         # Dockerfile: its C library must be glibc, not older than the one that the library was built with\n  \
         COPY preload-{name} {inside}\n{}\n\
         # Kubernetes, below the container's `env:`\n{}\n\
         # systemd, below [Service]\n{}\n\
         # is it in effect? `allocanary {} PID`\n",
        library.display(),
        here.join(" "),
        lines(&inside, dockerfile),
        lines(&inside, |name, value| kubernetes(name, value).join("\n  ")),
        lines(&inside, systemd),
        if name == PROFILE { "who" } else { "doctor" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_quoted_where_they_must_be() {
        let page = page("jemalloc", Path::new("/opt/preload-jemalloc"), "narenas=per_cpu(1),thread_idle=100ms");
        for line in [
            "library  /opt/preload-jemalloc",
            "  LD_PRELOAD=/opt/preload-jemalloc ALLOCANARY_PRELOAD='narenas=per_cpu(1),thread_idle=100ms' PROGRAM",
            "  COPY preload-jemalloc /usr/local/lib/preload-jemalloc",
            "  ENV LD_PRELOAD=/usr/local/lib/preload-jemalloc",
            "  ENV ALLOCANARY_PRELOAD='narenas=per_cpu(1),thread_idle=100ms'",
            "  - name: ALLOCANARY_PRELOAD",
            "    value: \"narenas=per_cpu(1),thread_idle=100ms\"",
            "  Environment=\"ALLOCANARY_PRELOAD=narenas=per_cpu(1),thread_idle=100ms\"",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }

    #[test]
    fn without_settings_there_is_no_variable_for_them() {
        let page = page("system", Path::new("/opt/preload-system"), "");
        assert!(
            !page.contains("ALLOCANARY_PRELOAD") && page.contains("LD_PRELOAD=/opt/preload-system PROGRAM"),
            "{page}"
        );
    }
}
