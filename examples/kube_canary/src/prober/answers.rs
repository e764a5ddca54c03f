//! Handles an answer. In: a probe that came back, its time and its source. Out: a mark in its peer's book, or the
//! reason why the packet is dropped. A dropped packet changes no book.

use std::net::IpAddr;

use super::packet::Probe;
use crate::book::Answer;
use crate::mesh::Mesh;
use crate::protocol::{Loss, Protocol};
use crate::tallies::Refused;

/// What is known of a packet besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its arrival time, by the steady clock.
    pub at: u64,
    /// Where it is from.
    pub source: IpAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// Hops that it had left.
    pub hop_limit: Option<u8>,
}

/// The prober's data for the check of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The random number of this process.
    pub nonce: u64,
    /// The number of nanoseconds after which a probe is lost.
    pub timeout: u64,
}

impl Asker {
    /// Marks an answer in the book of its peer.
    ///
    /// The arrival time decides whether an answer came by its deadline, not the time at which it was read. So a stop of this process causes
    /// no loss.
    pub fn settle(&self, mesh: &mut Mesh, probe: &Probe, arrival: &Arrival) -> Result<Answer, Refused> {
        let sent_at = self.check(mesh, probe, arrival)?;
        let rtt = arrival.at.saturating_sub(sent_at);
        let book = mesh.book(probe.id, probe.protocol).ok_or(Refused::UnknownProbe)?;
        if rtt > self.timeout {
            book.lost(probe.sequence, Loss::Timeout);
        }
        match book.answer(probe.sequence, rtt, arrival.hop_limit) {
            Answer::Unknown => Err(Refused::UnknownProbe),
            answer => Ok(answer),
        }
    }

    /// Marks a probe as lost because the network says that it cannot be delivered. `arrival.source` is the destination of
    /// the probe. Returns true if the probe was in flight.
    pub fn fail(&self, mesh: &mut Mesh, probe: &Probe, arrival: &Arrival) -> Result<bool, Refused> {
        self.check(mesh, probe, arrival)?;
        let book = mesh.book(probe.id, probe.protocol).ok_or(Refused::UnknownProbe)?;
        Ok(book.lost(probe.sequence, Loss::Unreachable))
    }

    /// When the probe was sent, if it is one of ours.
    fn check(&self, mesh: &Mesh, probe: &Probe, arrival: &Arrival) -> Result<u64, Refused> {
        if probe.nonce != self.nonce {
            return Err(Refused::Foreign);
        }
        if probe.protocol != arrival.protocol {
            return Err(Refused::Malformed);
        }
        let entry = mesh.get(probe.id).ok_or(Refused::UnknownProbe)?;
        if entry.peer.address != arrival.source {
            return Err(Refused::WrongSource);
        }
        let book = entry.books[probe.protocol as usize].as_ref().ok_or(Refused::UnknownProbe)?;
        book.sent_at(probe.sequence).ok_or(Refused::UnknownProbe)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::Bounds;
    use crate::mesh::PeerId;
    use crate::peer::Peer;
    use crate::prober::packet::Kind;
    use allocanary_testing::fuzz::holds;

    const ASKER: Asker = Asker { nonce: 42, timeout: 1000 };

    fn mesh() -> (Mesh, PeerId, IpAddr) {
        let mut mesh = Mesh::new(Bounds::default(), 0, usize::MAX, "a");
        let address = IpAddr::from([10, 0, 0, 1]);
        mesh.update("flags", vec![Peer::at(address), Peer::at(IpAddr::from([10, 0, 0, 2]))], 0);
        let (id, _) = mesh.at(address).unwrap();
        (mesh, id, address)
    }

    fn probe(id: PeerId, sequence: u32) -> Probe {
        Probe { kind: Kind::Request, protocol: Protocol::Icmp, nonce: 42, id, sequence }
    }

    fn arrival(source: IpAddr, at: u64) -> Arrival {
        Arrival { at, source, protocol: Protocol::Icmp, hop_limit: Some(64) }
    }

    #[test]
    fn what_came_by_its_deadline_counts_whenever_it_is_read() {
        let (mut mesh, id, address) = mesh();
        let book = mesh.book(id, Protocol::Icmp).unwrap();
        let (early, late) = (book.send(0), book.send(0));
        assert_eq!(ASKER.settle(&mut mesh, &probe(id, early), &arrival(address, 1000)), Ok(Answer::Reply));
        assert_eq!(ASKER.settle(&mut mesh, &probe(id, late), &arrival(address, 1001)), Ok(Answer::Late));
        let book = mesh.book(id, Protocol::Icmp).unwrap();
        assert_eq!((book.replies(), book.lost_for(Loss::Timeout), book.late()), (1, 1, 1));
        assert_eq!(book.last_rtt_ns(), 1000);
    }

    #[test]
    fn the_network_s_word_loses_a_probe_once() {
        let (mut mesh, id, address) = mesh();
        let sequence = mesh.book(id, Protocol::Icmp).unwrap().send(0);
        let other = IpAddr::from([10, 0, 0, 2]);
        assert_eq!(ASKER.fail(&mut mesh, &probe(id, sequence), &arrival(other, 1)), Err(Refused::WrongSource));
        assert_eq!(ASKER.fail(&mut mesh, &probe(id, sequence), &arrival(address, 1)), Ok(true));
        assert_eq!(ASKER.fail(&mut mesh, &probe(id, sequence), &arrival(address, 1)), Ok(false));
        assert_eq!(mesh.book(id, Protocol::Icmp).unwrap().lost_for(Loss::Unreachable), 1);
    }

    #[test]
    fn an_answer_that_comes_by_another_protocol_is_none() {
        let (mut mesh, id, address) = mesh();
        let sequence = mesh.book(id, Protocol::Udp).unwrap().send(0);
        let udp = Probe { protocol: Protocol::Udp, ..probe(id, sequence) };
        assert_eq!(ASKER.settle(&mut mesh, &udp, &arrival(address, 1)), Err(Refused::Malformed));
        assert!(mesh.book(id, Protocol::Udp).unwrap().awaits(sequence));
    }

    #[test]
    fn fuzz_a_forged_packet_changes_no_book() {
        let nonce = prop_oneof![Just(42_u64), any::<u64>()];
        let drawn = (nonce, 0..4_u32, 0..3_u32, 0..20_u32, 1..4_u8, any::<bool>());
        holds(256, 16, drawn, |(nonce, slot, generation, sequence, last, udp)| {
            let (mut mesh, id, address) = mesh();
            let known = mesh.book(id, Protocol::Icmp).unwrap().send(0);
            let before = format!("{:?}", mesh.entries().collect::<Vec<_>>());
            let protocol = if udp { Protocol::Udp } else { Protocol::Icmp };
            let forged = Probe { nonce, protocol, ..probe(PeerId { slot, generation }, sequence) };
            let source = IpAddr::from([10, 0, 0, last]);
            let settled = ASKER.settle(&mut mesh, &forged, &arrival(source, 10));
            if (nonce, forged.id, sequence, source, udp) == (42, id, known, address, false) {
                assert_eq!(settled, Ok(Answer::Reply));
            } else {
                assert!(settled.is_err());
                assert_eq!(format!("{:?}", mesh.entries().collect::<Vec<_>>()), before);
            }
        });
    }
}
