//! A target. In: a text of the command line. Out: the host, and how to check it.

use crate::discovery;

/// Something outside of the mesh that should answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    name: Box<str>,
    pub(super) ask: Ask,
}

/// How it is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Its addresses are resolved.
    Dns(String),
    /// A connection is opened.
    Tcp(Place),
    /// A page is requested.
    Http { place: Place, path: String, tls: bool },
}

/// A host, by its name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
}

const WANTED: &str = "wanted dns:NAME, tcp:HOST:PORT, http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH";

impl Target {
    /// Parses `dns:NAME`, `tcp:HOST:PORT`, `http://HOST[:PORT]/PATH` or `https://...`.
    ///
    /// # Errors
    /// The form that was wanted instead.
    pub fn parse(text: &str) -> Result<Target, String> {
        let wrong = |what: &str| format!("{WANTED}; {what} in `{text}`");
        let ask = if let Some(name) = text.strip_prefix("dns:") {
            if name.is_empty() {
                return Err(wrong("found no name"));
            }
            discovery::check_name(name)?;
            Ask::Dns(name.into())
        } else if let Some(place) = text.strip_prefix("tcp:") {
            Ask::Tcp(place_of(place, None).map_err(|what| wrong(&what))?)
        } else {
            let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
                (Some(rest), _) => (false, rest),
                (_, Some(rest)) if cfg!(feature = "kubernetes") => (true, rest),
                (_, Some(_)) => return Err("https: built without the feature `kubernetes`, which has TLS".into()),
                _ => return Err(wrong("found neither")),
            };
            let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
            let path = format!("/{path}");
            if path.bytes().any(|byte| !byte.is_ascii_graphic()) || path.contains('#') {
                return Err(wrong("found a path that no request can have"));
            }
            let place = place_of(place, Some(if tls { 443 } else { 80 })).map_err(|what| wrong(&what))?;
            Ask::Http { place, path, tls }
        };
        Ok(Target { name: text.into(), ask })
    }

    /// Its name in metrics: the text of the flag.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// `HOST[:PORT]`; an IPv6 address is in brackets.
fn place_of(text: &str, usual: Option<u16>) -> Result<Place, String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or("found no port from 1 to 65535")?,
        None => usual.ok_or("found no port")?,
    };
    if host.is_empty() {
        return Err("found no host".into());
    }
    if host.parse::<std::net::IpAddr>().is_err() {
        if host.contains('@') {
            return Err("found a user's name".into());
        }
        discovery::check_name(host)?;
    }
    Ok(Place { host: host.into(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_called_as_they_are_written() {
        let ask = |text: &str| Target::parse(text).unwrap().ask;
        let place = |host: &str, port| Place { host: host.into(), port };
        assert_eq!(ask("dns:a.b.svc.cluster.local."), Ask::Dns("a.b.svc.cluster.local.".into()));
        assert_eq!(ask("tcp:[::1]:443"), Ask::Tcp(place("::1", 443)));
        let http = |place, path: &str, tls| Ask::Http { place, path: path.into(), tls };
        assert_eq!(ask("http://ingress.example"), http(place("ingress.example", 80), "/", false));
        assert_eq!(ask("http://10.0.0.1:8080/a?b=c"), http(place("10.0.0.1", 8080), "/a?b=c", false));
        #[cfg(feature = "kubernetes")]
        assert_eq!(
            ask("https://kubernetes.default.svc/readyz"),
            http(place("kubernetes.default.svc", 443), "/readyz", true)
        );
        assert_eq!(Target::parse("tcp:a:1").unwrap().name(), "tcp:a:1");
        for wrong in [
            "",
            "a",
            "tcp:a",
            "tcp:a:0",
            "tcp:a:x",
            "dns:",
            "dns:10.0.0.1",
            "http://a b/",
            "ftp://a/",
            "http://u@h/",
            "http:///x",
        ] {
            let said = Target::parse(wrong).unwrap_err();
            assert!(said.contains("wanted"), "{wrong}: {said}");
        }
    }
}
