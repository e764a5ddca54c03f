//! Where each candidate's memory is. In: a panel. Out: a bar of letters for each candidate, with figures.

use super::{bold, wrapped};
use crate::reports::{anatomies, words};
use crate::summary::anatomy::Part;
use crate::summary::{Anatomy, Panel};
use allocanary_kernel::terminal::Look;

/// The bars at the largest column; nothing if no row says where its memory is.
pub fn anatomy(panel: &Panel, look: &Look) -> String {
    let Some(last) = panel.columns.len().checked_sub(1) else { return String::new() };
    let found = anatomies::at(panel, last);
    if found.is_empty() {
        return String::new();
    }
    let at = words::column(panel.axis, panel.columns[last]);
    let title = format!("{}: where the memory is when idle, at {at} (MiB)", panel.title);
    let mut out = format!("\n{}\n", bold(&wrapped(&title, look), look));
    let inner = Look { width: look.width - 2, ..*look };
    for (_, line, anatomy) in &found {
        let untouched = words::mebibytes(anatomy.never_touched);
        let untouched = match anatomy.never_touched >= 0.05 * f64::from(1 << 20) {
            true => format!("; {untouched} more are reserved, and were never touched"),
            false => String::new(),
        };
        let doubt = if anatomy.adds_up() { "" } else { "; more than 2 % unexplained" };
        let figures = format!("{}{untouched}{doubt}", anatomies::figures(anatomy));
        let bar = anatomies::bar(anatomy, inner.width as usize);
        let figures = wrapped(&figures, &inner).replace('\n', "\n  ");
        let rss = words::mebibytes(anatomy.rss);
        out.push_str(&format!("{}\n  {bar}\n  {figures}\n", wrapped(&format!("{} {rss}", line.candidate), look)));
    }
    let caches = |anatomy: &Anatomy| anatomy.get(Part::Caches);
    let most = found.iter().max_by(|a, b| caches(&a.2).total_cmp(&caches(&b.2)));
    let sentence = most.and_then(|(_, line, anatomy)| anatomies::sentence(&line.candidate, anatomy));
    out.push_str(&format!("{}\n", wrapped(&anatomies::key(&found), look)));
    out + &sentence.map_or(String::new(), |sentence| wrapped(&sentence, look) + "\n")
}
