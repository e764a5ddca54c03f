//! The page at `/`. In: nothing. Out: HTML whose script fetches `/peers` and `/mesh`, and the policy that limits what a browser may do.

/// The whole page is in this file, so a browser fetches no other file.
pub(super) const HTML: &str = include_str!("page.html");

/// Only the page's own style and script are allowed. Names of nodes come from other canaries, and are shown as text.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                                 img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
