//! Rows in columns: names to the left, figures to the right. In: cells. Out: lines of at most the terminal's width.

use allocanary_kernel::terminal::{Look, harmless};

/// The lines. The first row is the head, in muted colour. A name that is too long for the width is cut.
pub fn columns(rows: &[Vec<String>], look: &Look) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let figures: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    let room = usize::from(look.width).saturating_sub(2 + figures).max(8);
    let first = widths.first().copied().unwrap_or(0).min(room);
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        let name = row.first().map(|name| cut(&harmless(name), first)).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_figures_are_not() {
        let rows = [["name", "bytes"], ["a name that is longer than the line", "1.00 MiB"]];
        let rows = rows.map(|row| row.map(String::from).to_vec());
        let text = columns(&rows, &Look { color: false, width: 30 });
        assert_eq!(text, "  name                   bytes\n  a name that is ...  1.00 MiB\n");
        assert!(columns(&rows, &Look { color: true, width: 30 }).starts_with("\x1b[2m"));
    }
}
