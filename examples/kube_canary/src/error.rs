//! Errors of the canary as a whole. In: the failed action. Out: one line that says what to do next.

use std::net::SocketAddr;
use std::path::PathBuf;

/// An error that ends the canary, or keeps it from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is not valid.
    #[error("{0}")]
    Input(String),
    /// A port could not be opened.
    #[error("{what} {address}: {error}; is another canary running here? --listen and --udp-port choose other ports")]
    Port {
        /// What the port was for: `listening for HTTP on`.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
    /// ICMP was requested, but is not permitted.
    #[error(
        "ICMP is not permitted: a datagram socket needs this process's group within net.ipv4.ping_group_range \
         ({datagram}), a raw socket needs CAP_NET_RAW ({raw}); set the pod's sysctl net.ipv4.ping_group_range to \
         `0 2147483647`, or probe with --protocol udp"
    )]
    NoIcmp {
        /// The error of the datagram socket.
        datagram: std::io::Error,
        /// The error of the raw socket.
        raw: std::io::Error,
    },
    /// A file of peers cannot be read at the start.
    #[error("reading the peers file {path}: {problem}")]
    PeersFile {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Anything else that the system refused.
    #[error("{what}: {error}")]
    System {
        /// The failed action.
        what: &'static str,
        /// Why it failed.
        error: std::io::Error,
    },
}

/// The text of an error with those of all its causes, each once. The outermost text alone, such as "client error
/// (Connect)", hides what was wrong.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// A result with the canary's error.
pub type Result<T> = std::result::Result<T, Error>;
