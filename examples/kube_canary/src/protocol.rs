//! The protocols of probes, and the reasons for losses. In: nothing. Out: the names that flags, metrics and JSON share.

use std::fmt;

/// A way to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// ICMP echo.
    Icmp,
    /// UDP echo between canaries: needs no privilege.
    Udp,
    /// A TCP connection is opened and closed.
    Tcp,
    /// HTTP GET of `/healthz`.
    Http,
}

impl Protocol {
    /// All of them, in the order of their numbers.
    pub const ALL: [Protocol; 4] = [Protocol::Icmp, Protocol::Udp, Protocol::Tcp, Protocol::Http];

    /// Whether a connection is only the beginning of a probe. For a TCP probe it is the whole probe.
    pub const fn connects_first(self) -> bool {
        matches!(self, Protocol::Http)
    }

    /// The name in flags, labels and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Icmp => "icmp",
            Protocol::Udp => "udp",
            Protocol::Tcp => "tcp",
            Protocol::Http => "http",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The reason why a probe counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No answer by the deadline.
    Timeout,
    /// The probe could not be sent: the network is down, a buffer is full, a firewall of this host refuses.
    Send,
    /// The network or the peer reported that the peer cannot be reached, or refused the probe.
    Unreachable,
}

impl Loss {
    /// All of them, in the order of their numbers.
    pub const ALL: [Loss; 3] = [Loss::Timeout, Loss::Send, Loss::Unreachable];

    /// The value of the label `reason`.
    pub const fn name(self) -> &'static str {
        match self {
            Loss::Timeout => "timeout",
            Loss::Send => "send_error",
            Loss::Unreachable => "unreachable",
        }
    }
}
