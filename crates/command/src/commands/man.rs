//! `allocanary man`: the manual pages. In: a verb or a folder, the command line. Out: a page on standard output, or all pages as files.

use std::fs;
use std::process::ExitCode;

use super::terminal;
use crate::args::ManFlags;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::perhaps;
use allocanary_sys::private;
use clap::Command;

/// Prints a page, or writes all.
pub fn run(flags: &ManFlags, command: Command) -> Result<ExitCode> {
    let pages = manuals(command).map_err(|error| Error::file("the manual page", "writing", error))?;
    let Some(folder) = &flags.out_dir else {
        let name = flags.verb.as_ref().map_or("allocanary.1".to_string(), |verb| format!("allocanary-{verb}.1"));
        let Some((_, page)) = pages.iter().find(|(page, _)| *page == name) else {
            let verb = flags.verb.as_deref().unwrap_or_default();
            let verbs = pages.iter().filter_map(|(page, _)| page.strip_prefix("allocanary-")?.strip_suffix(".1"));
            return Err(Error::Input(format!("man: no verb `{verb}`{}", perhaps(verb, verbs))));
        };
        return terminal::print(page);
    };
    fs::create_dir_all(folder).map_err(|error| Error::file(folder, "making the folder of the manual pages", error))?;
    for (name, page) in &pages {
        let path = folder.join(name);
        private::publish(&path, page).map_err(|error| Error::file(path, "writing a manual page", error))?;
    }
    terminal::print_plain(&format!("{} pages in {}\n", pages.len(), folder.display()))
}

/// Every manual page: the file's name, `allocanary-study.1`, and its text. The first is the command's own.
fn manuals(command: Command) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let verbs = command.get_subcommands().cloned().collect::<Vec<_>>();
    let page = |command: Command| {
        let man = clap_mangen::Man::new(command);
        let mut text = Vec::new();
        man.render(&mut text)?;
        Ok((man.get_filename(), text))
    };
    std::iter::once(command).chain(verbs).map(page).collect()
}
