//! Text from outside, for a page. In: names, messages and sentences. Out: markup that shows them as plain text.

use maud::{Markup, PreEscaped, Render};

/// The text with all markup characters escaped, for content and for quoted attributes.
pub fn escaped(text: &str) -> String {
    text.render().into_string()
}

/// Our own sentences, escaped. No line breaks between a number and its percent sign. Text between backticks becomes code. If a text has an
/// unpaired backtick, all its backticks stay.
pub fn prose(text: &str) -> Markup {
    let text = escaped(text).replace(" %", "&nbsp;%");
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return PreEscaped(text);
    }
    let part = |(at, part): (usize, &&str)| {
        if at.is_multiple_of(2) { part.to_string() } else { format!("<code>{part}</code>") }
    };
    PreEscaped(parts.iter().enumerate().map(part).collect())
}

/// A candidate's name. It may be long and has no spaces, so a line may break where its settings begin.
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
        assert_eq!(prose("`a<b>` and `c`.").0, "<code>a&lt;b&gt;</code> and <code>c</code>.");
        assert_eq!(prose("it's a ` that somebody's program has").0, "it's a ` that somebody's program has");
        assert_eq!(candidate("system:a=<i>").0, "system:<wbr>a=&lt;i&gt;");
    }
}
