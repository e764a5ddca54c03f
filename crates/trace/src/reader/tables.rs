//! The tables of a trace with stacks. In: chunks of nodes, modules and resident pages. Out: plain data. Damaged entries are left
//! out.

use std::ops::Range;

use super::Trace;
use crate::error::{Error, Result};
use crate::format::{CHUNK_HEADER, MODULE_HEADER, MOST_NODES, NODE, RESIDENT_MAGIC, TableHeader};
use crate::format::{MODULE_MAGIC, NODE_MAGIC};
use crate::stacks::{Resident, StackNode, Stacks, TraceModule};

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl Trace {
    /// The stacks of the trace. A trace without stacks has only the root.
    pub fn stacks(&self) -> Result<Stacks> {
        let mut stacks = Stacks { nodes: vec![StackNode::default()], modules: Vec::new() };
        for table in self.tables.iter().filter(|table| table.magic == NODE_MAGIC) {
            self.nodes(table, &mut stacks.nodes)?;
        }
        // The places of a window are in no order, so their tables are sorted by their numbers.
        let mut of_modules: Vec<&TableHeader> =
            self.tables.iter().filter(|table| table.magic == MODULE_MAGIC).collect();
        of_modules.sort_by_key(|table| table.first);
        for table in of_modules {
            modules(&self.bytes_of(table)?, &mut stacks.modules);
        }
        Ok(stacks)
    }

    /// The pages that were resident at the marks. The list is empty if they were not read.
    pub fn residents(&self) -> Result<Vec<Resident>> {
        let mut found: Vec<Resident> = Vec::new();
        for table in self.tables.iter().filter(|table| table.magic == RESIDENT_MAGIC) {
            let (mark, count) = (table.first as u8, table.count as usize);
            let bytes = self.bytes_of(table)?;
            let pairs = bytes[CHUNK_HEADER..].as_chunks::<16>().0.iter().take(count);
            let ranges = pairs.map(|pair| u64_at(pair, 0)..u64_at(pair, 8)).filter(|range| range.start < range.end);
            match found.iter_mut().find(|resident| resident.mark == mark) {
                Some(resident) => resident.ranges.extend(ranges),
                None => found.push(Resident { mark, ranges: ranges.collect() }),
            }
        }
        found.iter_mut().for_each(|resident| resident.ranges = joined(std::mem::take(&mut resident.ranges)));
        Ok(found)
    }

    /// The bytes that the tables take in the file.
    pub fn table_bytes(&self) -> u64 {
        self.tables.iter().map(|table| u64::from(table.length)).sum()
    }

    /// A table, without its header.
    fn bytes_of(&self, table: &TableHeader) -> Result<Vec<u8>> {
        let mut bytes = vec![0; table.length as usize];
        let read = self.read_chunk(table.offset, &mut bytes[CHUNK_HEADER..]);
        read.map_err(|error| Error::file(&self.path, "reading the stacks of the trace", error))?;
        Ok(bytes)
    }

    fn nodes(&self, table: &TableHeader, nodes: &mut Vec<StackNode>) -> Result<()> {
        let first = table.first as usize;
        for (at, node) in self.bytes_of(table)?[CHUNK_HEADER..].as_chunks::<NODE>().0.iter().enumerate() {
            let (pc, parent, id) = (u64_at(node, 0), u32_at(node, 8), first + at);
            // A node that was not written completely has no address.
            if pc != 0 && (1..MOST_NODES).contains(&id) {
                if nodes.len() <= id {
                    nodes.resize(id + 1, StackNode::default());
                }
                nodes[id] = StackNode { parent, pc, module: u32_at(node, 12) };
            }
        }
        Ok(())
    }
}

/// Sorts the ranges, and joins those that touch or overlap, because a damaged table may name a page twice.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut out: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// The modules of a chunk: each begins with its length, which was written last.
fn modules(chunk: &[u8], modules: &mut Vec<TraceModule>) {
    let mut rest = &chunk[CHUNK_HEADER..];
    loop {
        let length = u32_at(rest, 0) as usize;
        let Some(record) = rest.get(..length).filter(|record| record.len() >= MODULE_HEADER) else { return };
        let path_end = MODULE_HEADER + (u32_at(record, 4) & 0xFFFF) as usize;
        let build_end = path_end + (u32_at(record, 4) >> 16) as usize;
        if let (Some(path), Some(build_id)) = (record.get(MODULE_HEADER..path_end), record.get(path_end..build_end)) {
            modules.push(TraceModule {
                start: u64_at(record, 8),
                end: u64_at(record, 16),
                bias: u64_at(record, 24),
                path: String::from_utf8_lossy(path).into_owned(),
                build_id: build_id.to_vec(),
            });
        }
        rest = &rest[length..];
    }
}

#[cfg(test)]
mod tests;
