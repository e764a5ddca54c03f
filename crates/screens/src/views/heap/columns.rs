//! Rows in columns: names to the left, figures to the right. In: cells. Out: lines of at most the terminal's width.

use std::collections::HashMap;

use allocanary_text::outside::{TerminalStyle, harmless};

/// The lines. The first row is the header, in a muted colour. A name that is too long is cut at its end. If two names have the same
/// beginning, the middle is cut instead.
pub fn columns(rows: &[Vec<String>], look: &TerminalStyle) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let figures: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    let room = usize::from(look.width).saturating_sub(2 + figures).max(8);
    let first = widths.first().copied().unwrap_or(0).min(room);
    let mut out = String::new();
    let names: Vec<_> = rows.iter().map(|row| harmless(row.first().map_or("", String::as_str))).collect();
    let mut shown: HashMap<String, usize> = HashMap::new();
    names.iter().for_each(|name| *shown.entry(cut(name, first)).or_default() += 1);
    for (at, row) in rows.iter().enumerate() {
        let name = cut(&names[at], first);
        let name = if shown[&name] > 1 { without_middle(&names[at], first) } else { name };
        let mut line = format!("  {name:<first$}");
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        let line = line.trim_end();
        match at == 0 && look.color {
            true => out.push_str(&format!("\x1b[2m{line}\x1b[0m\n")),
            false => out.push_str(&format!("{line}\n")),
        }
    }
    out
}

fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.into();
    }
    name.chars().take(width.saturating_sub(3)).chain("...".chars()).collect()
}

/// The name without its middle. Most of the letters that stay are those at the end, where names differ.
fn without_middle(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width {
        return name.into();
    }
    let head = width.saturating_sub(3) / 3;
    let tail = width.saturating_sub(3) - head;
    name.chars().take(head).chain("...".chars()).chain(name.chars().skip(count - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_figures_are_not() {
        let rows = [["name", "bytes"], ["a name that is longer than the line", "1.00 MiB"]];
        let rows = rows.map(|row| row.map(String::from).to_vec());
        let text = columns(&rows, &TerminalStyle { color: false, width: 30 });
        assert_eq!(text, "  name                   bytes\n  a name that is ...  1.00 MiB\n");
        assert!(columns(&rows, &TerminalStyle { color: true, width: 30 }).starts_with("\x1b[2m"));
    }

    #[test]
    fn names_that_begin_alike_are_still_two() {
        let rows = [
            ["name", "bytes"],
            ["service::mesh::Mesh::update", "1"],
            ["service::mesh::Mesh::book", "2"],
            ["other", "3"],
        ];
        let rows = rows.map(|row| row.map(String::from).to_vec());
        let text = columns(&rows, &TerminalStyle { color: false, width: 26 });
        assert_eq!(
            text,
            "  name               bytes\n  serv...sh::update      1\n  serv...Mesh::book      2\n  other                  3\n"
        );
    }
}
