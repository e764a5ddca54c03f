//! Who points to some blocks. In: the result of the search. Out: a text for each block: how it is held, who points to it, and what it
//! retains.

use allocanary_contents::{Pointed, PointedBlock, Pointer};
use allocanary_text::outside::{TerminalStyle, harmless};

use super::{bytes, count};
use crate::views::heap::bold;

/// The whole text.
pub fn pointed(found: &Pointed, look: &TerminalStyle) -> String {
    let title = bold(&format!("Who points to {}", harmless(&found.wanted)), look);
    let first = match found.found {
        0 => "There is no such block.".to_string(),
        1 => "There is one such block.".into(),
        all if all as usize > found.blocks.len() => {
            format!("There are {} such blocks. Shown are the {} that retain most.", count(all), found.blocks.len())
        }
        all => format!("There are {} such blocks.", count(all)),
    };
    let blocks: String = found.blocks.iter().map(|block| one(block, look)).collect();
    format!("{title}\n{}\n{blocks}\n", crate::draw::wrapped(&first, look.width.into()))
}

/// What a block is and what it retains.
pub(super) fn about(block: &PointedBlock) -> String {
    let retains = match block.blocks {
        1 => "It retains no other block.".to_string(),
        blocks => format!("It retains {} in {} blocks, with itself.", bytes(block.bytes), count(blocks)),
    };
    format!("{} at {:#x}, {}. {retains}", harmless(&block.kind), block.at, bytes(block.each))
}

fn one(block: &PointedBlock, look: &TerminalStyle) -> String {
    let mut out = format!("\n{}\n", crate::draw::wrapped(&about(block), look.width.into()));
    if block.path.is_empty() {
        out.push_str("  held by: nothing leads to it\n");
    } else {
        out.push_str("  held by\n");
        block.path.iter().for_each(|step| out.push_str(&format!("    {}\n", word(step))));
    }
    if !block.pointers.is_empty() {
        out.push_str("  pointed to by\n");
        block.pointers.iter().for_each(|pointer| out.push_str(&format!("    {}\n", word(pointer))));
    }
    if block.more > 0 {
        out.push_str(&format!("    {} more\n", count(block.more)));
    }
    out
}

/// `+0x10 of std::map or std::set node at 0x55d0c0de1230`.
pub(super) fn word(pointer: &Pointer) -> String {
    let at = if pointer.at == 0 { String::new() } else { format!(" at {:#x}", pointer.at) };
    let alike = if pointer.looks_alike { ", a word that looks like a pointer" } else { "" };
    match (pointer.offset, pointer.at) {
        (0, 0) => format!("{}{alike}", harmless(&pointer.from)),
        (offset, _) => format!("+{offset:#x} of {}{at}{alike}", harmless(&pointer.from)),
    }
}
