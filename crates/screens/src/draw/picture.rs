//! A picture in a page: what it shows, and how to read it.

use maud::{Markup, html};

use crate::draw::markup::prose;

/// One picture.
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// The drawing.
    pub drawing: Markup,
    /// How to read it.
    pub caption: String,
    /// Whether a candidate is shown by its number in a legend.
    pub is_numbered: bool,
}

impl Picture {
    /// The picture in a page, with its title and caption.
    pub fn figure(&self) -> Markup {
        html! {
            figure {
                h3 { (self.title) }
                (self.drawing)
                figcaption { (prose(&self.caption)) }
            }
        }
    }
}
