//! A table that fits the terminal and breaks no word. In: a header, rows of cells. Out: one table, or several below each other, each
//! with some of the columns.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use textwrap::core::display_width;

use allocanary_text::outside::TerminalStyle;

/// A table that is being made.
pub struct Grid {
    heads: Vec<String>,
    rows: Vec<Row>,
}

enum Row {
    /// A line across all columns.
    Title(String),
    /// The candidate, then its figures.
    Cells(Vec<Cell>),
}

/// Rules above and below the table and under the header, without space between rows.
const RULED: TableStyle = {
    let rule = LineStyle::none().fill('─').junction('─');
    TableStyle::new().top_border(rule).header_separator(rule).bottom_border(rule)
};

impl Grid {
    /// A table without rows. The first column has names, and the others figures.
    pub fn new(heads: impl IntoIterator<Item = String>) -> Self {
        Grid { heads: heads.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a line across all columns.
    pub fn title(&mut self, text: String) {
        self.rows.push(Row::Title(text));
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row::Cells(cells.into_iter().collect()));
    }

    /// The table. If its columns do not fit next to each other, the later ones follow in tables below.
    pub fn render(&self, look: &TerminalStyle) -> String {
        let width = |column: usize| self.width(column);
        // The names have a blank on both sides. Figures have one before them, and comfy-table another between two columns.
        let names = width(0) + 2;
        let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
        let mut taken = names;
        for column in 1..self.heads.len() {
            let own = width(column) + 2;
            if taken + own > look.width.into() && parts.last().is_some_and(|part| !part.is_empty()) {
                parts.push(Vec::new());
                taken = names;
            }
            taken += own;
            parts.last_mut().expect("there is one at first").push(column);
        }
        parts.iter().map(|part| self.part(part, look)).collect::<Vec<_>>().join("\n")
    }

    /// A table of the names and some of the columns.
    fn part(&self, columns: &[usize], look: &TerminalStyle) -> String {
        let mut table = Table::new();
        table.load_style(RULED);
        table.set_content_arrangement(ContentArrangement::Disabled);
        if look.color {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        let chosen = || std::iter::once(0).chain(columns.iter().copied());
        table.set_header(chosen().map(|column| self.heads[column].clone()));
        // Two rules and the header are above the first row.
        let mut at = 2 + self.heads.iter().map(|head| head.lines().count()).max().unwrap_or(1);
        let mut titles = Vec::new();
        for row in &self.rows {
            match row {
                Row::Cells(cells) => {
                    let cell = |column: usize| cells.get(column).cloned().unwrap_or_else(|| Cell::new(""));
                    at += chosen().map(|column| cell(column).content().lines().count()).max().unwrap_or(1).max(1);
                    table.add_row(chosen().map(cell));
                }
                Row::Title(text) => {
                    // comfy-table has no cell across several columns. The row is left empty here, and filled below.
                    table.add_row([" "]);
                    titles.push((at, text));
                    at += 1;
                }
            }
        }
        for column in 1..=columns.len() {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
                column.set_padding((1, 0));
            }
        }
        let mut lines: Vec<String> = table.to_string().lines().map(str::to_string).collect();
        for (at, text) in titles {
            if let Some(line) = lines.get_mut(at) {
                *line = format!(" {text}");
            }
        }
        lines.join("\n")
    }

    /// The width of a column: that of its widest line.
    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => Some(cells.get(column)?.content()),
            Row::Title(_) => None,
        });
        let texts = cells.chain(self.heads.get(column).cloned());
        texts.map(|text| text.lines().map(display_width).max().unwrap_or(0)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_follows_below_and_no_word_is_broken() {
        let mut grid = Grid::new(["candidate", "peak", "throughput"].map(String::from));
        grid.title("a title that is wider than the names".into());
        grid.row(["jemalloc", "47.0 MiB", "22.1 k/s"].map(Cell::new));
        grid.row(["own", "109 MiB"].map(Cell::new));
        let look = |width| TerminalStyle { color: false, width };
        let narrow = grid.render(&look(24));
        let wanted = "\
─────────────────────
 candidate       peak
─────────────────────
 a title that is wider than the names
 jemalloc    47.0 MiB
 own          109 MiB
─────────────────────
───────────────────────
 candidate   throughput
───────────────────────
 a title that is wider than the names
 jemalloc      22.1 k/s
 own                   
───────────────────────";
        assert_eq!(narrow, wanted);
        assert_eq!(grid.render(&look(80)).lines().count(), 7);
    }
}
