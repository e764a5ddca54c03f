//! The formats that a client accepts. In: its `Accept` and `Accept-Encoding`. Out: a format, and whether to gzip.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderName};

use super::exposition::Format;

/// OpenMetrics if the client prefers it to plain text or ranks both equally. A client without a preference gets plain text. A client that
/// prefers protobuf messages gets them if there are native histograms.
pub(super) fn format(headers: &HeaderMap, native: bool) -> Format {
    let (mut open, mut classic, mut messages) = (0.0_f32, 0.0_f32, 0.0_f32);
    for (name, quality) in offers(headers, &ACCEPT) {
        match name {
            _ if name.eq_ignore_ascii_case("application/openmetrics-text") => open = open.max(quality),
            _ if native && name.eq_ignore_ascii_case("application/vnd.google.protobuf") => {
                messages = messages.max(quality);
            }
            _ if name.eq_ignore_ascii_case("text/plain") => classic = classic.max(quality),
            _ => {}
        }
    }
    match () {
        () if messages > 0.0 && messages >= open.max(classic) => Format::Protobuf,
        () if open > 0.0 && open >= classic => Format::OpenMetrics,
        () => Format::Classic,
    }
}

/// Whether the client takes gzip.
pub(super) fn gzip(headers: &HeaderMap) -> bool {
    let named = |wanted: &str| {
        offers(headers, &ACCEPT_ENCODING)
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, quality)| quality > 0.0)
    };
    named("gzip").or_else(|| named("*")).unwrap_or(false)
}

/// The offers in this header, each with its quality. It is 1 if none is given, and 0 if it cannot be read.
fn offers<'a>(headers: &'a HeaderMap, name: &'static HeaderName) -> impl Iterator<Item = (&'a str, f32)> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(
        |offer| {
            let mut parts = offer.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            (name, quality.map_or(1.0, |quality| quality.trim().parse().unwrap_or(0.0)))
        },
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use allocanary_testing::fuzz::holds;

    fn headers(name: &'static HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.clone(), value.parse().unwrap())])
    }

    #[test]
    fn openmetrics_for_those_that_ask() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, wanted) in [
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text; version=0.0.1", Format::OpenMetrics),
            ("application/openmetrics-text;q=0.1,text/plain;q=0.9", Format::Classic),
            ("application/openmetrics-text;q=0", Format::Classic),
            ("application/openmetrics-text;q=nan", Format::Classic),
            ("*/*", Format::Classic),
            ("text/html,,;;q", Format::Classic),
        ] {
            assert_eq!(format(&headers(&ACCEPT, accept), false), wanted, "{accept}");
        }
        assert_eq!(format(&HeaderMap::new(), false), Format::Classic);
    }

    #[test]
    fn gzip_for_those_that_take_it() {
        for (accept, wanted) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0, *", false),
            ("*", true),
            ("br", false),
            ("", false),
        ] {
            assert_eq!(gzip(&headers(&ACCEPT_ENCODING, accept)), wanted, "{accept}");
        }
        assert!(!gzip(&HeaderMap::new()));
    }

    #[test]
    fn fuzz_no_header_makes_it_panic() {
        let near = "((gzip|\\*|text/plain|application/openmetrics-text)?[;,=qQ .0-9-]{0,6}){0,8}";
        holds(256, 16, prop_oneof!["\\PC*", near], |value| {
            let Ok(value) = value.parse::<hyper::header::HeaderValue>() else { return };
            let headers = HeaderMap::from_iter([(ACCEPT, value.clone()), (ACCEPT_ENCODING, value)]);
            let _ = (format(&headers, false), gzip(&headers));
        });
    }
}
