//! The labels of peers. In: the mesh. Out: for each peer one piece of text, `peer_node="a",peer_ip="10.0.0.1",proto`, that
//! each of its twenty-odd series begins with.
//!
//! Written anew for each series, the labels took two thirds of a scrape's time, formatting addresses most of all.

use std::fmt::{self, Write};
use std::ops::Range;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

use crate::mesh::{Entry, Mesh};

/// The labels of all peers with series, in one text that is used again by the next scrape.
#[derive(Debug, Default)]
pub(super) struct Labels {
    text: String,
    ends: Vec<u32>,
}

impl Labels {
    /// Of those peers that have series now.
    pub(super) fn read(&mut self, mesh: &Mesh) {
        self.text.clear();
        self.ends.clear();
        for entry in with_series(mesh) {
            self.label("peer_node", &entry.peer.node);
            // An address has nothing to escape, and a String takes all.
            let _ = write!(self.text, "peer_ip=\"{}\",", entry.peer.address);
            self.label("peer_zone", &entry.peer.zone);
            self.ends.push(self.text.len() as u32);
        }
    }

    fn label(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        self.text.push_str(name);
        self.text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                // No name of a node has these, and not every reader of the page bears them.
                _ if character.is_control() => self.text.push('\u{fffd}'),
                _ => self.text.push(character),
            }
        }
        self.text.push_str("\",");
    }

    /// The peers, each with its labels.
    pub(super) fn of<'a>(&'a self, mesh: &'a Mesh) -> impl Iterator<Item = (&'a Entry, &'a str)> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = begins.zip(&self.ends).map(|(from, to)| Range { start: from as usize, end: *to as usize });
        with_series(mesh).zip(ranges.map(|range| &self.text[range]))
    }
}

/// A peer that this canary leaves to others has no series; one that went away keeps them for its time of grace.
fn with_series(mesh: &Mesh) -> impl Iterator<Item = &Entry> {
    mesh.entries().map(|(_, entry)| entry).filter(|entry| entry.chosen || entry.gone_since.is_some())
}

/// The labels of one series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series<'a> {
    /// Of the peer: whole labels, each with a comma after it.
    pub(super) peer: &'a str,
    /// The last label, or the last two.
    pub(super) rest: [(&'static str, &'static str); 2],
}

impl EncodeLabelSet for Series<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        for (at, (name, value)) in self.rest.iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            let mut label = encoder.encode_label();
            let mut key = label.encode_label_key()?;
            if at == 0 {
                // The peer's labels go where the name of a label goes, which the encoder writes as it is.
                key.write_str(self.peer)?;
            }
            key.write_str(name)?;
            let mut text = key.encode_label_value()?;
            text.write_str(value)?;
            text.finish()?;
        }
        Ok(())
    }
}
