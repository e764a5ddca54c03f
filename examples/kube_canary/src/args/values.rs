//! What stands behind a flag. In: a text. Out: the value, or what was wanted in its place.

use std::net::IpAddr;
use std::time::Duration;

use allocanary_kernel::units;

use crate::discovery;
use crate::peer::{self, Peer};

/// A span of at least a millisecond, the timer's own grain, and at most a day.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    span_or_zero(text).and_then(|span| match span {
        span if span >= Duration::from_millis(1) => Ok(span),
        _ => Err("wanted at least 1ms".into()),
    })
}

/// A span of at most a day; 0 too.
pub(super) fn span_or_zero(text: &str) -> Result<Duration, String> {
    units::parse_duration(text)
        .filter(|span| *span <= Duration::from_secs(86_400))
        .ok_or_else(|| "wanted a number and ms, s, m or h, at most a day: 500ms, 1s, 2m".into())
}

/// A name that could be resolved.
pub(super) fn dns_name(text: &str) -> Result<String, String> {
    discovery::check_name(text).map(|()| text.into())
}

/// A peer: `ADDRESS[=NODE]`.
pub(super) fn peer(text: &str) -> Result<Peer, String> {
    let (address, node) = text.split_once('=').unwrap_or((text, ""));
    let address = match address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse().map(IpAddr::V6),
        None => address.parse(),
    };
    let wanted = "wanted an IP address, and perhaps =NODE; for a host's name use --peers-dns";
    let address = address.map_err(|_| wanted.to_string())?.to_canonical();
    peer::check(address)?;
    Ok(Peer::on(address, node))
}
