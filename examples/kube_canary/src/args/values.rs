//! Parses the values of flags. In: a text. Out: the value, or an error that says what was wanted.

use std::net::IpAddr;
use std::time::Duration;

use allocanary_text::units;

use crate::discovery;
use crate::peer::{self, Peer};

/// A span of at least a millisecond, which is the timer's own precision, and at most a day.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    span_or_zero(text).and_then(|span| match span {
        span if span >= Duration::from_millis(1) => Ok(span),
        _ => Err("wanted at least 1ms".into()),
    })
}

/// A span of at most a day. 0 is allowed.
pub(super) fn span_or_zero(text: &str) -> Result<Duration, String> {
    units::parse_duration(text)
        .filter(|span| *span <= Duration::from_secs(86_400))
        .ok_or_else(|| "wanted a number and ms, s, m or h, at most a day: 500ms, 1s, 2m".into())
}

/// A name that may be resolved.
pub(super) fn dns_name(text: &str) -> Result<String, String> {
    discovery::check_name(text).map(|()| text.into())
}

/// A peer as the user named it.
#[derive(Clone, Debug)]
pub(super) enum Named {
    /// By its address.
    Address(Peer),
    /// By its host, with the name of its node.
    Host(String, String),
}

impl Named {
    /// The peer, if its address is known.
    pub(super) fn peer(self) -> Option<Peer> {
        match self {
            Named::Address(peer) => Some(peer),
            Named::Host(..) => None,
        }
    }

    /// The host and its node, if only the host is known.
    pub(super) fn host(self) -> Option<(String, String)> {
        match self {
            Named::Host(host, node) => Some((host, node)),
            Named::Address(_) => None,
        }
    }
}

/// A peer: `ADDRESS[=NODE]` or `HOST[=NODE]`. The default for a host's node is the name of the host.
pub(super) fn peer(text: &str) -> Result<Named, String> {
    let (name, node) = text.split_once('=').unwrap_or((text, ""));
    let address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse().map(IpAddr::V6),
        None => name.parse(),
    };
    if let Ok(address) = address {
        let address: IpAddr = address.to_canonical();
        peer::check(address)?;
        return Ok(Named::Address(Peer::on(address, node)));
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    // The last part of a host's name is never a number. Such a text is an address with a mistake.
    let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_host = name.bytes().all(is_part) && !last.is_empty() && !last.bytes().all(|byte| byte.is_ascii_digit());
    if !is_host {
        return Err("wanted an IP address or the name of a host, and perhaps =NODE".into());
    }
    discovery::check_name(name)?;
    let node = if node.is_empty() { name.trim_end_matches('.') } else { node };
    Ok(Named::Host(name.into(), node.into()))
}
