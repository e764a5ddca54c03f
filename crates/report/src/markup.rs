//! Text from outside in a page. In: names, messages and sentences. Out: markup in which they are text.

use maud::{Markup, PreEscaped, Render};

/// The text with all markup characters escaped, for content and for quoted attributes.
pub fn escaped(text: &str) -> String {
    text.render().into_string()
}

/// Our own sentences: escaped, and without a line break between a number and its percent sign.
pub fn prose(text: &str) -> Markup {
    PreEscaped(escaped(text).replace(" %", "&nbsp;%"))
}

/// A candidate's name. It may be long and has no spaces, so it may break where its settings begin.
pub fn candidate(name: &str) -> Markup {
    PreEscaped(escaped(name).replace(':', ":<wbr>").replace(',', ",<wbr>").replace('_', "_<wbr>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(escaped("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
        assert_eq!(prose("95 % & more").0, "95&nbsp;% &amp; more");
        assert_eq!(candidate("system:a=<i>").0, "system:<wbr>a=&lt;i&gt;");
    }
}
