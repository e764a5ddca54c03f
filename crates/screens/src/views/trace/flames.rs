//! A flamegraph within a page. In: the SVG of inferno, with its script. Out: a document for a frame of the page, and the hash of the script.
//!
//! The frame separates the script's names and the SVG's style from the page, whose other pictures are SVG as well. The frame has no address,
//! so the page's policy applies to it: the page allows this script by its hash, and no other script in the frame or the page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use sha2::{Digest, Sha256};

/// The frame is light or dark like the page. The flamegraph's boxes keep their colours, on which black words are readable.
const STYLE: &str = "body { margin: 0; } body > svg { display: block; width: 100%; } \
                     svg > rect { fill: #ffffff; } svg > text { fill: #17191c; } \
                     @media screen and (prefers-color-scheme: dark) { svg > rect { fill: #15181c; } svg > text { fill: #e8eaed; } } \
                     @media print { #search, #unzoom { display: none; } }";

/// A flamegraph.
pub struct Flames {
    document: String,
    hash: String,
    height: u32,
    what: &'static str,
}

impl Flames {
    /// Makes a flamegraph from inferno's SVG. `what` names the kind of bytes, such as pinned ones. `None` if the SVG does not have the form
    /// that this version of inferno writes.
    pub fn of(svg: &str, what: &'static str) -> Option<Flames> {
        let (before, rest) = svg.split_once("<script type=\"text/ecmascript\">")?;
        let (script, after) = rest.split_once("</script>")?;
        let (_, before) = before.split_once("<svg ")?;
        let (attributes, before) = before.split_once('>')?;
        let height = attribute(attributes, "height")?.parse().ok()?;
        let attributes = attributes.strip_suffix(" ").unwrap_or(attributes).replace(" onload=\"init(evt)\"", "");
        // A frame without an address cannot keep the script's state in its address: the browser would end the script with an error.
        let script = script.replace("<![CDATA[", "").replace("]]>", "").replace(KEEPS_STATE, "");
        let script = format!("{script}\ninit();\n");
        let hash = format!("sha256-{}", STANDARD.encode(Sha256::digest(&script)));
        let head = "<meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">";
        let document = format!(
            "<!DOCTYPE html><html lang=\"en\"><head>{head}<title>Bytes {what}</title></head><body><svg {attributes}>{before}{after}\
             <style>{STYLE}</style><script>{script}</script></body></html>"
        );
        Some(Flames { document, hash, height, what })
    }

    /// The hash of its script, in the form for a policy.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The frame.
    pub fn frame(&self) -> Markup {
        html! {
            iframe.flames title={ "Flamegraph of the " (self.what) " bytes of each stack" } height=(self.height) srcdoc=(self.document) {}
        }
    }
}

/// The statement that writes the zoom and the search into the address.
const KEEPS_STATE: &str = "history.replaceState(null, null, parse_params(params));";

fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = attributes.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_who::SiteOrder;
    use allocanary_who::collapsed::flamegraph_of_page;

    #[test]
    fn the_script_of_the_flamegraph_is_the_one_whose_hash_is_allowed() {
        let svg = flamegraph_of_page("main;load<b>;insert 4096\nmain;x 10\n", SiteOrder::Requested).unwrap();
        let flames = Flames::of(std::str::from_utf8(&svg).unwrap(), "requested").unwrap();
        let document = &flames.document;
        assert_eq!(document.matches("<script").count(), 1, "{document}");
        let script = document.split("<script>").nth(1).unwrap().split("</script>").next().unwrap();
        assert!(script.contains("function search(term)") && script.ends_with("init();\n"), "{script}");
        // What the policy forbids, or a frame without an address.
        for forbidden in ["CDATA", "replaceState", "onload", "<?xml", "<!DOCTYPE svg"] {
            assert!(!document.contains(forbidden), "{forbidden}: {document}");
        }
        let digest = STANDARD.decode(flames.hash().strip_prefix("sha256-").unwrap()).unwrap();
        assert_eq!(digest[..], Sha256::digest(script)[..]);
        assert!(document.contains("load&lt;b&gt; (4,096 bytes") && flames.height > 100, "{document}");
        let frame = flames.frame().0;
        assert!(frame.contains("srcdoc=\"&lt;!DOCTYPE html&gt;") && !frame.contains("<script"), "{frame}");
    }

    #[test]
    fn another_picture_is_none() {
        assert!(Flames::of("<svg height=\"9\"></svg>", "requested").is_none());
    }
}
