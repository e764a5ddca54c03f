//! Remedies as a list. In: remedies, the best first. Out: text for a terminal.

use allocanary_doctor::remedies::Remedy;
use allocanary_text::outside::{TerminalStyle, harmless};

use crate::views::heap::bold;

/// The places whose lines can be pasted into a shell. For all others, the place is named above the lines.
const IN_A_SHELL: [&str; 2] = ["shell", "environment"];

/// The first `most` of a process's remedies, numbered. Each has its lines to paste and its reason.
pub fn list(remedies: &[Remedy], most: usize, pid: u32, look: &TerminalStyle) -> String {
    let mut out = String::new();
    for (at, remedy) in remedies.iter().take(most).enumerate() {
        let indented = |text: &str| {
            let room = usize::from(look.width).saturating_sub(3);
            crate::draw::wrapped(&harmless(text), room).replace('\n', "\n   ")
        };
        let title = indented(&remedy.title()).replace("\n   ", "\n");
        let title = bold(&title, look).replace('\n', "\n   ");
        out.push_str(&format!("{}. {title}\n", at + 1));
        // In a shell this line would be an error.
        if let Some(place) =
            remedy.lines.first().map(|line| &line.place).filter(|place| !IN_A_SHELL.contains(&place.as_str()))
        {
            out.push_str(&format!("   In {}:\n", harmless(place)));
        }
        remedy.first_lines().for_each(|line| out.push_str(&format!("     {}\n", harmless(line))));
        out.push_str(&format!("   {}\n", indented(&remedy.details())));
    }
    if remedies.len() > most {
        out.push_str(&format!("   and {} more: `allocanary heap {pid}` shows all\n", remedies.len() - most));
    }
    out
}
