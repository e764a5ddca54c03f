//! Recognises this canary's own addresses. In: a list of peers. Out: the peers that are not this canary.
//!
//! The kernel is asked for each list, since a host's addresses change. An address belongs to the host if a socket can be bound to it. If
//! foreign addresses can be bound too (ip_nonlocal_bind), this proves nothing, and only the addresses in the flags count as own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use crate::options::Options;
use crate::peer::Peer;
use crate::say::say;

/// The step that fails if the kernel does not answer.
pub const ASKING: &str = "asking which peers are this host itself";
/// Addresses reserved for documentation, which no host has. A laboratory may use one of these nets, so there are
/// several.
const NOBODYS: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 1)),
];

/// Recognizes the canary's own addresses. They are not peers unless a flag says so.
#[derive(Clone, Debug)]
pub struct Own {
    /// The addresses in the flags.
    pub addresses: Vec<IpAddr>,
    /// Whether own addresses are peers as well.
    pub probed: bool,
}

impl Own {
    /// From the flags.
    pub fn of(options: &Options) -> Own {
        Own { addresses: options.own_addresses.clone(), probed: options.probe_self }
    }

    /// The peers that are not this canary.
    ///
    /// # Errors
    /// If the kernel cannot tell whether an address is own, because no descriptor is free. A guess would add or lose a
    /// peer.
    pub fn others(&self, peers: Vec<Peer>) -> io::Result<Vec<Peer>> {
        self.without_own(peers, |_| false)
    }

    /// As [`Own::others`], for a list that a person wrote. One list may serve all nodes, so own addresses are left out.
    /// Loopback addresses stay: they cannot reach another node, so they were written on purpose. If no peer is left, a
    /// line says so.
    pub fn none_of(&self, source: &str, peers: Vec<Peer>) -> io::Result<Vec<Peer>> {
        let named = peers.len();
        let others = self.without_own(peers, |address| address.is_loopback())?;
        if named > 0 && others.is_empty() {
            say(&format!("peers from {source}: all {named} peers are this canary itself; --probe-self probes them"));
        }
        Ok(others)
    }

    fn without_own(&self, peers: Vec<Peer>, is_meant: impl Fn(IpAddr) -> bool) -> io::Result<Vec<Peer>> {
        if self.probed {
            return Ok(peers);
        }
        let says = [says(false)?, says(true)?];
        let is_own = |address: IpAddr| match address {
            _ if self.addresses.contains(&address) => Ok(true),
            _ if is_meant(address) => Ok(false),
            _ if address.is_loopback() || says[usize::from(address.is_ipv6())] => binds(address),
            _ => Ok(false),
        };
        let others = peers.into_iter().map(|peer| is_own(peer.address).map(|own| (peer, own)));
        others.filter(|one| !matches!(one, Ok((_, true)))).map(|one| one.map(|(peer, _)| peer)).collect()
    }
}

/// Whether the kernel distinguishes own addresses of this family from foreign ones.
fn says(v6: bool) -> io::Result<bool> {
    for address in NOBODYS.into_iter().filter(|address| address.is_ipv6() == v6) {
        if !binds(address)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a socket can be bound to that address.
pub fn binds(address: IpAddr) -> io::Result<bool> {
    bound(UdpSocket::bind((address, 0)))
}

/// The result of a bind. It is false for a missing address or family, and for an address that needs an interface, which lists
/// do not have. Any other error says nothing about the address.
fn bound(socket: io::Result<UdpSocket>) -> io::Result<bool> {
    match socket {
        Err(error) => match error.raw_os_error() {
            Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT | libc::EINVAL) => Ok(false),
            _ => Err(error),
        },
        Ok(_) => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_says_nothing_of_the_address_makes_it_nobody_s() {
        let bound = |number| bound(Err(io::Error::from_raw_os_error(number))).ok();
        assert_eq!([libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT].map(bound), [Some(false); 2]);
        assert_eq!([libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EACCES].map(bound), [None; 4]);
        assert!(!binds("fe80::9".parse().unwrap()).unwrap(), "no interface is said");
    }

    #[test]
    fn a_list_for_all_nodes_may_name_this_one() {
        let addresses = ["192.0.2.7", "198.51.100.9", "127.0.0.1"].map(|address| address.parse::<IpAddr>().unwrap());
        let named = |own: &[IpAddr], probed| {
            let own = Own { addresses: own.to_vec(), probed };
            let others = own.none_of("flags", addresses.map(Peer::at).to_vec()).unwrap();
            others.iter().map(|peer| peer.address).collect::<Vec<_>>()
        };
        assert_eq!(named(&addresses[..1], false), addresses[1..]);
        assert_eq!(named(&addresses[2..], false), addresses[..2]);
        assert_eq!(named(&addresses[..1], true), addresses);
        // An own address that no flag names: the one from which this host would reach another host.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_err() || !says(false).unwrap() {
            allocanary_testing::skipped::skipped(
                "a part of it: this host has no address but loopback, or does not tell which are its own",
            );
            return;
        }
        let host = socket.local_addr().unwrap().ip();
        let left = |probed| Own { addresses: Vec::new(), probed }.none_of("flags", vec![Peer::at(host)]).unwrap().len();
        assert_eq!((left(false), left(true)), (0, 1), "{host}");
    }
}
