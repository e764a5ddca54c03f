//! The map of a heap: its memory in the order of the addresses, coloured by part and by arena. In: a heap. Out: pictures.

use maud::{Markup, html};

use super::{bytes, percent};
use crate::draw::{Picture, class_of};
use allocanary_heap::{ArenaStretch, Heap};

/// The number of cells in a row, and the size of a cell with its distance to the next.
const COLUMNS: usize = 40;
const CELL: (f64, f64) = (14.0, 14.0);
/// A part below this share of a cell, in percent, is not drawn.
const LEAST: f64 = 3.0;
/// The number of arenas with a separate colour.
pub const COLORED: usize = 7;

/// The map by part.
pub fn by_part(heap: &Heap) -> Option<Picture> {
    let cell = |stretch: &ArenaStretch, x: f64, y: f64| {
        let (whole, mut left) = (heap.map.bytes, x);
        let width = CELL.0 - 1.5;
        let some = stretch.parts.iter().filter(|(_, bytes)| percent(*bytes, whole) >= LEAST);
        let parts = some.map(|(part, bytes)| {
            let wide = width * bytes as f64 / whole.max(1) as f64;
            left += wide;
            (class_of(part), left - wide, wide)
        });
        html! {
            rect.gone x=(tenth(x)) y=(tenth(y)) width=(width) height=(width) {}
            @for (class, left, wide) in parts {
                rect class=(class) x=(tenth(left)) y=(tenth(y)) width=(tenth(wide)) height=(width) {}
            }
        }
    };
    let caption = format!(
        "Each square is {} of addresses of the heap, in their order; addresses without resident memory are left out. Within a \
         square the parts are drawn side by side; what is not resident is empty.",
        bytes(heap.map.bytes)
    );
    picture(heap, format!("Memory of {} by part", heap.allocator), &caption, &cell)
}

/// The map by arena.
pub fn by_arena(heap: &Heap) -> Option<Picture> {
    if heap.arenas.len() < 2 {
        return None;
    }
    let colors: Vec<Option<usize>> = heap.map.arenas.iter().map(|name| color(heap, name)).collect();
    let cell = |stretch: &ArenaStretch, x: f64, y: f64| {
        let width = CELL.0 - 1.5;
        let color = colors.get(stretch.arena as usize).copied().flatten();
        let fill = color.map_or_else(|| "var(--muted)".into(), |color| format!("var(--candidate-{color})"));
        html! { rect style={ "fill:" (fill) } x=(tenth(x)) y=(tenth(y)) width=(width) height=(width) {} }
    };
    let caption = format!(
        "The {} arenas with the most memory have colours; all others are grey.",
        heap.arenas.len().min(COLORED)
    );
    picture(heap, format!("Memory of {} by arena", heap.allocator), &caption, &cell)
}

/// The number of an arena's colour: its rank among the largest arenas.
pub fn color(heap: &Heap, name: &str) -> Option<usize> {
    heap.arenas.iter().take(COLORED).position(|arena| arena.name == name)
}

fn picture(
    heap: &Heap,
    title: String,
    caption: &str,
    cell: &dyn Fn(&ArenaStretch, f64, f64) -> Markup,
) -> Option<Picture> {
    let stretches = &heap.map.stretches;
    if stretches.is_empty() {
        return None;
    }
    let square = |(at, stretch): (usize, &ArenaStretch)| {
        let (x, y) = ((at % COLUMNS) as f64 * CELL.0, (at / COLUMNS) as f64 * CELL.1);
        let arena = heap.map.arenas.get(stretch.arena as usize).map_or("", String::as_str);
        let parts: Vec<String> = stretch
            .parts
            .iter()
            .filter(|(_, number)| *number > 0)
            .map(|(part, number)| format!("{} {}", part.name(), bytes(number)))
            .collect();
        let told = format!("{:#x}, {arena}: {}", stretch.from, parts.join(", "));
        html! { g { title { (told) } (cell(stretch, x, y)) } }
    };
    let rows = stretches.len().div_ceil(COLUMNS);
    let (width, height) = (COLUMNS as f64 * CELL.0, rows as f64 * CELL.1);
    let drawing = html! {
        svg.map viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(title) {
            title { (title) }
            @for one in stretches.iter().enumerate() { (square(one)) }
        }
    };
    Some(Picture { title, drawing, caption: caption.into(), is_numbered: false })
}

/// A coordinate: a tenth of a unit is enough.
pub fn tenth(value: f64) -> String {
    format!("{value:.1}")
}
