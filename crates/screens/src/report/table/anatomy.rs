//! Where each candidate's memory is. In: a panel. Out: a bar of letters for each candidate, with figures.

use super::{bold, wrapped};
use crate::report::{anatomies, words};
use allocanary_measure::summary::Panel;
use allocanary_text::outside::TerminalStyle;

/// The bars at the largest column; nothing if no row has an anatomy.
pub fn anatomy(panel: &Panel, look: &TerminalStyle) -> String {
    let Some(last) = panel.columns.len().checked_sub(1) else { return String::new() };
    let found = anatomies::at(panel, last);
    if found.is_empty() {
        return String::new();
    }
    let title = format!("{}: {} (MiB)", panel.title, anatomies::heading(panel, last, &found));
    // The letters are explained next to the bars, where a reader needs them.
    let key = wrapped(&anatomies::key(&found), look);
    let mut out = format!("\n{}\n{key}\n", bold(&wrapped(&title, look), look));
    let inner = TerminalStyle { width: look.width - 2, ..*look };
    for (_, line, anatomy) in &found {
        let untouched = words::mebibytes(anatomy.never_touched);
        let untouched = match anatomies::is_much(anatomy.never_touched) {
            true => format!("; {untouched} more are reserved, and were never touched"),
            false => String::new(),
        };
        let doubt = if anatomy.adds_up() { "" } else { "; more than 2 % unexplained" };
        let figures = format!("{}{untouched}{doubt}", anatomies::figures(anatomy));
        let bar = anatomies::bar(anatomy, inner.width as usize);
        let figures = wrapped(&figures, &inner).replace('\n', "\n  ");
        let whole = anatomies::whole(anatomy);
        out.push_str(&format!("{}\n  {bar}\n  {figures}\n", wrapped(&format!("{} {whole}", line.name()), look)));
    }
    let most = anatomies::fullest(&found);
    let sentence = most.and_then(|(_, line, anatomy)| anatomies::sentence(&line.name(), anatomy));
    out + &sentence.map_or(String::new(), |sentence| wrapped(&sentence, look) + "\n")
}
