//! The pictures of a panel, as SVG text whose colours come from the page. In: a panel. Out: titles, drawings and
//! captions. A figure that is missing or not finite leaves a gap. Everything else is drawn.

mod anatomy;
pub mod canvas;
mod dots;
mod front;
mod lines;
mod over_time;
pub mod palette;
pub mod scale;
mod scatter;

pub use front::front;

use super::markup::{escaped, prose};
use allocanary_study::summary::{Estimate, Line, Panel};

/// One picture.
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// The drawing.
    pub svg: String,
    /// How to read it.
    pub caption: String,
}

impl Picture {
    /// The picture in a page, with its title and caption.
    pub fn figure(&self) -> String {
        let (title, svg, caption) = (escaped(&self.title), &self.svg, prose(&self.caption));
        format!("<figure>\n<h3>{title}</h3>\n{svg}<figcaption>{caption}</figcaption>\n</figure>\n")
    }
}

/// All pictures of a panel, memory first. A panel without columns has none.
pub fn of(panel: &Panel) -> Vec<Picture> {
    let Some(last) = panel.columns.len().checked_sub(1) else { return Vec::new() };
    let mut pictures = vec![
        over_time::over_time(panel, last),
        lines::memory(panel),
        lines::phases(panel, last),
        lines::throughput(panel),
    ];
    if last > 0 {
        // At a single column the quantiles below show the same.
        pictures.push(lines::latency(panel));
    }
    pictures.push(dots::latency(panel, last));
    pictures.push(scatter::memory_for_throughput(panel, last));
    pictures.push(anatomy::anatomy(panel, last));
    pictures.into_iter().flatten().collect()
}

/// A figure that can be drawn.
fn figure(line: &Line, column: usize, metric: &str) -> Option<Estimate> {
    let found = *line.points.get(column)?.as_ref()?.get(metric)?;
    let bound = |bound: f64| if bound.is_finite() { bound } else { found.median };
    found.median.is_finite().then(|| Estimate { low: bound(found.low), high: bound(found.high), ..found })
}
