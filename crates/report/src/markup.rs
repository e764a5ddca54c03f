//! Text that is safe inside HTML. In: names and messages from outside. Out: HTML.

/// The text with all markup characters escaped, for content and for quoted attributes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Our own sentences: escaped, and without a line break between a number and its percent sign.
pub fn prose(text: &str) -> String {
    escaped(text).replace(" %", "&nbsp;%")
}

/// A candidate's name. It may be long and has no spaces, so it may break where its settings begin.
pub fn candidate(name: &str) -> String {
    escaped(name).replace(':', ":<wbr>").replace(',', ",<wbr>").replace('_', "_<wbr>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(escaped("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
        assert_eq!(prose("95 % & more"), "95&nbsp;% &amp; more");
        assert_eq!(candidate("system:a=<i>"), "system:<wbr>a=&lt;i&gt;");
    }
}
