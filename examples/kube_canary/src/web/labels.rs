//! The labels of series of peers. In: the mesh. Out: for each book one piece of text,
//! `{peer_node="a",peer_ip="10.0.0.1",proto="icmp"`, that each of its twenty-odd series begins with.
//!
//! Written anew for each series, the labels took most of a scrape's time, formatting addresses above all.

use std::fmt::Write;

use crate::book::Book;
use crate::mesh::{Entry, Mesh};
use crate::protocol::Protocol;

/// The labels of all books, in one text that is used again by the next scrape.
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
        for (entry, protocol, _) in books(mesh) {
            self.text.push('{');
            // Until a peer's node is known it is called by its address: an alert must be able to name it.
            match &*entry.peer.node {
                "" => drop(write!(self.text, "peer_node=\"{}\",", entry.peer.address)),
                node => self.label("peer_node", node),
            }
            // An address has nothing to escape, and a String takes all.
            let _ = write!(self.text, "peer_ip=\"{}\",", entry.peer.address);
            self.label("peer_zone", &entry.peer.zone);
            let _ = write!(self.text, "proto=\"{protocol}\"");
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

    /// The books, each with its labels.
    pub(super) fn of<'a>(&'a self, mesh: &'a Mesh) -> impl Iterator<Item = (&'a Entry, Protocol, &'a Book, &'a str)> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = begins.zip(&self.ends).map(|(from, to)| from as usize..*to as usize);
        books(mesh).zip(ranges).map(|((entry, protocol, book), range)| (entry, protocol, book, &self.text[range]))
    }
}

/// A peer that this canary leaves to others has no series; one that went away keeps them for its time of grace.
fn books(mesh: &Mesh) -> impl Iterator<Item = (&Entry, Protocol, &Book)> {
    let shown = mesh.entries().map(|(_, entry)| entry).filter(|entry| entry.chosen || entry.gone_since.is_some());
    shown.flat_map(|entry| {
        let books = Protocol::ALL.into_iter().zip(&entry.books);
        books.filter_map(move |(protocol, book)| Some((entry, protocol, book.as_deref()?)))
    })
}
