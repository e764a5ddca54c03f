//! Which addresses are this canary's own. In: a list of peers. Out: those of it that are others.
//!
//! The kernel is asked, for each list anew, since addresses of a host change: one that a socket can be bound to is the host's.
//! Where foreign addresses can be bound too (ip_nonlocal_bind), it says nothing, and only those that the flags name are own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use crate::options::Options;
use crate::peer::Peer;
use crate::say::say;

/// What fails where the kernel does not answer.
pub const ASKING: &str = "asking which peers are this host itself";
/// Addresses of the documentation's, which nobody has; a laboratory may have those of one net.
const NOBODYS: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 1)),
];

/// Recognizes the canary's own addresses. They are not peers unless a flag says so.
#[derive(Clone, Debug)]
pub struct Own {
    /// Those that the flags name.
    pub addresses: Vec<IpAddr>,
    /// Whether they are peers all the same.
    pub probed: bool,
}

impl Own {
    /// As the flags say.
    pub fn of(options: &Options) -> Own {
        Own { addresses: options.own_addresses.clone(), probed: options.probe_self }
    }

    /// Those that are not this canary.
    ///
    /// # Errors
    /// If the kernel cannot tell whether an address is own, because no descriptor is free. A guess would add or lose a
    /// peer.
    pub fn others(&self, peers: Vec<Peer>) -> io::Result<Vec<Peer>> {
        self.without_own(peers, |_| false)
    }

    /// As [`Own::others`], for a list that a person wrote. One list may serve all nodes, so own addresses are left out.
    /// Loopback addresses stay: no node reaches another by them, so whoever writes one means it. If no peer is left, a
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

/// Whether the kernel tells own addresses of that family from those of others.
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

/// What becomes of it: an address that is not there, a family that is not, or an address that is good only with an interface,
/// which lists have not. Any other error says nothing of the address.
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
        // An address that this host has, and nobody said so: the one by which it would reach another host.
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
