//! Colours and marks. In: the place of a candidate. Out: its colour, its mark and the page's style for both themes.
//!
//! A drawing uses placeholder colours (`#0A0003` is that of the fourth candidate). The page's style replaces them, so that the drawings
//! follow the reader's theme. The hues were found by a search: in both themes each has a contrast of 3:1 or more to the background, and
//! readers without red or green cones can distinguish any two. Only few hues meet these conditions, and none does so on paper. So every
//! candidate also has a mark and a number.

use maud::{Markup, html};
use plotters::style::RGBColor;

/// Text.
pub const INK: RGBColor = RGBColor(1, 1, 1);
/// Less important text, and the axes.
pub const MUTED: RGBColor = RGBColor(2, 2, 2);
/// The lines behind the figures.
pub const GRID: RGBColor = RGBColor(3, 3, 3);
/// The background.
pub const PAPER: RGBColor = RGBColor(4, 4, 4);

const LIGHT: [&str; 7] = ["#1f5df7", "#db7e02", "#017668", "#800d9e", "#cf0c08", "#d672bb", "#202833"];
const DARK: [&str; 7] = ["#31acff", "#eeb40f", "#0f9468", "#8847f0", "#ff2901", "#ff5eba", "#eeeeee"];

/// The placeholder for a candidate's colour.
pub fn color(candidate: usize) -> RGBColor {
    RGBColor(10, 0, (candidate % LIGHT.len()) as u8)
}

/// The corners of a candidate's mark around (0, 0), at a distance of about 1. There is one more mark than there are
/// colours, so that a pair of colour and mark repeats only after 56 candidates.
pub fn mark(candidate: usize) -> Vec<(f64, f64)> {
    let round = |corners: usize, turn: f64, radius: &dyn Fn(usize) -> f64| -> Vec<(f64, f64)> {
        let angle = |corner: usize| (corner as f64 / corners as f64 + turn) * std::f64::consts::TAU;
        (0..corners).map(|at| (radius(at) * angle(at).sin(), -radius(at) * angle(at).cos())).collect()
    };
    let plus = |turn: f64| {
        let arm = [(-0.38, -1.1), (0.38, -1.1), (0.38, -0.38)];
        let (sin, cos) = (turn * std::f64::consts::TAU).sin_cos();
        let quarter = |quarter: usize, (x, y): (f64, f64)| match quarter {
            0 => (x, y),
            1 => (-y, x),
            2 => (-x, -y),
            _ => (y, -x),
        };
        let corners = (0..4).flat_map(|at| arm.map(|corner| quarter(at, corner)));
        corners.map(|(x, y)| (x * cos - y * sin, x * sin + y * cos)).collect()
    };
    match candidate % 8 {
        0 => round(24, 0.0, &|_| 0.95),
        1 => round(4, 0.125, &|_| 1.2),
        2 => round(3, 0.0, &|_| 1.25),
        3 => round(4, 0.0, &|_| 1.25),
        4 => round(3, 0.5, &|_| 1.25),
        5 => plus(0.0),
        6 => plus(0.125),
        _ => round(10, 0.0, &|at| if at % 2 == 0 { 1.35 } else { 0.6 }),
    }
}

/// A candidate's mark as a separate small drawing, for a legend or a table.
pub fn swatch(candidate: usize) -> Markup {
    let corners: Vec<String> = mark(candidate).iter().map(|(x, y)| format!("{:.1},{:.1}", x * 6.0, y * 6.0)).collect();
    html! {
        svg.mark viewBox="-9 -9 18 18" aria-hidden="true" {
            polygon fill=(stand_in(color(candidate))) points=(corners.join(" ")) {}
        }
    }
}

fn stand_in(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The CSS rules that replace the placeholders by colours.
pub fn css() -> String {
    let colors = |of: [&str; 7]| -> String {
        of.iter().enumerate().map(|(at, color)| format!("--candidate-{at}:{color};")).collect()
    };
    let mut out =
        format!(":root{{{}}}\n@media (prefers-color-scheme: dark){{:root{{{}}}}}\n", colors(LIGHT), colors(DARK));
    let named = [(INK, "ink"), (MUTED, "muted"), (GRID, "grid"), (PAPER, "paper")];
    let named = named.map(|(color, name)| (color, name.to_string()));
    let candidates = (0..LIGHT.len()).map(|at| (color(at), format!("candidate-{at}")));
    for (color, name) in named.into_iter().chain(candidates) {
        let stand_in = stand_in(color);
        for part in ["fill", "stroke"] {
            out.push_str(&format!("svg [{part}=\"{stand_in}\"]{{{part}:var(--{name})}}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_56_candidates_look_alike() {
        let look = |at: usize| (color(at), format!("{:?}", mark(at)));
        for a in 0..56 {
            for b in a + 1..56 {
                assert_ne!(look(a), look(b), "{a} and {b}");
            }
        }
    }

    #[test]
    fn every_stand_in_has_a_rule_and_both_themes_have_every_color() {
        let css = css();
        assert!(css.contains("svg [stroke=\"#0A0006\"]{stroke:var(--candidate-6)}"), "{css}");
        assert_eq!(css.matches("--candidate-6:").count(), 2);
    }
}
