//! The frame of every page. In: its parts. Out: HTML. A page fetches nothing, so it opens offline. It has a light and a dark theme, and a
//! layout for paper and for a phone.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::draw::palette;

/// The style of all pages.
const STYLE: &str = include_str!("page.css");

/// What a page consists of.
pub struct HtmlPage<'a> {
    /// The title of the window, without the name of the command.
    pub title: &'a str,
    /// The heading: the question that the page answers.
    pub heading: &'a str,
    /// CSS rules only for this page.
    pub style: &'a str,
    /// The content under the heading.
    pub head: Markup,
    /// The page itself.
    pub main: Markup,
    /// Where the figures come from; may be empty.
    pub foot: Markup,
}

impl HtmlPage<'_> {
    /// The whole document. No script runs in it.
    pub fn document(self) -> String {
        self.with_scripts(&[])
    }

    /// The whole document. Only scripts with these hashes run: `sha256-` and the digest in base64.
    pub fn with_scripts(self, hashes: &[&str]) -> String {
        let quoted: String = hashes.iter().map(|hash| format!(" '{hash}'")).collect();
        let script = if hashes.is_empty() { String::new() } else { format!("; script-src{quoted}") };
        let policy = format!("default-src 'none'; style-src 'unsafe-inline'{script}");
        let text = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    title { (self.title) " - allocanary" }
                    style { (PreEscaped(palette::css())) (PreEscaped(STYLE)) (PreEscaped(self.style)) }
                }
                body {
                    header {
                        p.brand { "allocanary" }
                        h1 { (self.heading) }
                        (self.head)
                    }
                    main { (self.main) }
                    @if !self.foot.0.is_empty() { footer { (self.foot) } }
                }
            }
        };
        text.into_string() + "\n"
    }
}
