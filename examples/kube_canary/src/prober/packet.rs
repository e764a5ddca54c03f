//! The form of a probe on the wire. In: a probe. Out: bytes; and the reverse, without a panic on any bytes.
//!
//! ```text
//! byte  0      4        5      6         7  8      16    20          24        28   32
//!      | kcan | version | kind | protocol | 0 | nonce | slot | generation | sequence | 0 |
//! ```
//!
//! All numbers are big-endian. The nonce is a random number of this process. A sender that has not seen our probes cannot
//! guess it, so an answer with the nonce answers one of our probes. ICMP has only 16 bits of sequence; the payload carries
//! all 32.

use crate::mesh::PeerId;
use crate::protocol::Protocol;

/// The length of a probe in bytes. A request and a reply have the same length, so an echo server cannot be used to amplify traffic.
pub const LENGTH: usize = 32;
/// Bytes of the ICMP header before it.
pub const ICMP_HEADER: usize = 8;
const MAGIC: [u8; 4] = *b"kcan";
const VERSION: u8 = 1;

/// The direction of a packet. Replies are never answered, so two echo servers cannot loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Wants an answer.
    Request = 1,
    /// An answer. ICMP replies say `Request`, because the peer's kernel sends back the bytes that it got.
    Reply = 2,
}

/// A probe, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The direction of the packet.
    pub kind: Kind,
    /// The protocol by which it travels.
    pub protocol: Protocol,
    /// The random number of the process that sent the probe.
    pub nonce: u64,
    /// The peer that was probed.
    pub id: PeerId,
    /// The number in that peer's book.
    pub sequence: u32,
}

impl Probe {
    /// The bytes of a probe.
    pub fn write(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.kind as u8;
        bytes[6] = self.protocol as u8;
        bytes[8..16].copy_from_slice(&self.nonce.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.id.slot.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.id.generation.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.sequence.to_be_bytes());
        bytes
    }

    /// The probe in `bytes`; `None` if they are anything else, even one byte more.
    pub fn read(bytes: &[u8]) -> Option<Probe> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let kind = match bytes[5] {
            1 => Kind::Request,
            2 => Kind::Reply,
            _ => return None,
        };
        let protocol = *Protocol::ALL.get(usize::from(bytes[6]))?;
        let id = PeerId { slot: word(bytes, 16), generation: word(bytes, 20) };
        let nonce = u64::from(word(bytes, 8)) << 32 | u64::from(word(bytes, 12));
        let probe = Probe { kind, protocol, nonce, id, sequence: word(bytes, 24) };
        (*bytes == probe.write()).then_some(probe)
    }
}

fn word(bytes: &[u8; LENGTH], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// An ICMP echo request (`v6`: ICMPv6) around a probe.
///
/// The checksum is that of ICMP. For datagram sockets and for ICMPv6, the kernel itself fills in identifier and checksum.
pub fn echo_request(v6: bool, identifier: u16, probe: &Probe) -> [u8; ICMP_HEADER + LENGTH] {
    let mut bytes = [0; ICMP_HEADER + LENGTH];
    bytes[0] = if v6 { 128 } else { 8 };
    bytes[4..6].copy_from_slice(&identifier.to_be_bytes());
    bytes[6..8].copy_from_slice(&(probe.sequence as u16).to_be_bytes());
    bytes[ICMP_HEADER..].copy_from_slice(&probe.write());
    let checksum = checksum(&bytes);
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// The identifier and the probe in an ICMP echo reply, or in the request that an ICMP error quotes.
pub fn echo(v6: bool, bytes: &[u8]) -> Option<(u16, Probe)> {
    let (header, payload) = bytes.split_at_checked(ICMP_HEADER)?;
    let kinds = if v6 { [129, 128] } else { [0, 8] };
    let probe = Probe::read(payload)?;
    let ours = kinds.contains(&header[0])
        && header[1] == 0
        && header[6..8] == (probe.sequence as u16).to_be_bytes()
        && probe.kind == Kind::Request;
    ours.then_some((u16::from_be_bytes([header[4], header[5]]), probe))
}

/// The bytes after the IPv4 header, which raw sockets of IPv4 return as well.
pub fn after_ipv4(bytes: &[u8]) -> Option<&[u8]> {
    let first = *bytes.first()?;
    (first >> 4 == 4).then(|| bytes.get(usize::from(first & 15) * 4..))?
}

/// RFC 1071: the ones' complement of the ones' complement sum.
fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use allocanary_testing::fuzz::holds;

    fn probe() -> Probe {
        let id = PeerId { slot: 7, generation: 3 };
        Probe { kind: Kind::Request, protocol: Protocol::Icmp, nonce: 0x0123_4567_89ab_cdef, id, sequence: 0xfedc_ba98 }
    }

    #[test]
    fn the_bytes_stay_as_they_are_since_a_fleet_is_not_updated_at_once() {
        let golden =
            b"kcan\x01\x01\x00\x00\x01\x23\x45\x67\x89\xab\xcd\xef\0\0\0\x07\0\0\0\x03\xfe\xdc\xba\x98\0\0\0\0";
        assert_eq!(probe().write(), *golden);
        assert_eq!(Probe::read(golden), Some(probe()));
    }

    #[test]
    fn an_echo_carries_the_probe_and_a_checksum_that_adds_up() {
        for v6 in [false, true] {
            let bytes = echo_request(v6, 0xbeef, &probe());
            assert_eq!(checksum(&bytes), 0);
            assert_eq!(echo(v6, &bytes), Some((0xbeef, probe())));
            assert_eq!(echo(!v6, &bytes), None);
            let mut other_sequence = bytes;
            other_sequence[7] ^= 1;
            assert_eq!(echo(v6, &other_sequence), None);
        }
        assert_eq!(after_ipv4(&[0x46; 30]).map(<[u8]>::len), Some(6));
    }

    #[test]
    fn fuzz_nothing_panics_whatever_the_bytes() {
        let noise = prop::collection::vec(any::<u8>(), 0..100);
        // Purely random bytes would never pass the check of the first bytes.
        let near = (any::<bool>(), prop::collection::vec((0..ICMP_HEADER + LENGTH, any::<u8>()), 0..4));
        let near = near.prop_map(|(v6, changes)| {
            let mut bytes = echo_request(v6, 1, &probe());
            changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            bytes.to_vec()
        });
        holds(512, 16, prop_oneof![noise, near], |bytes| {
            let _ = (Probe::read(&bytes), echo(false, &bytes), echo(true, &bytes), after_ipv4(&bytes));
        });
    }

    #[test]
    fn fuzz_a_changed_byte_is_another_probe_or_none() {
        holds(256, 16, (0..LENGTH, 1..=255u8, 0..LENGTH), |(at, flip, cut)| {
            let mut bytes = probe().write();
            assert_eq!(Probe::read(&bytes[..cut]), None);
            bytes[at] ^= flip;
            assert_ne!(Probe::read(&bytes), Some(probe()));
        });
    }
}
