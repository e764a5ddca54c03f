//! Names memory that does not belong to a `malloc`: heaps of language runtimes, stacks, programs, files, and memory of unknown kind. An
//! area is recognised by properties of its mappings.

mod cpython;
mod go;
mod jvm;
mod php;
mod stacks;
mod v8;

pub use stacks::thread_structure;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Mapping, MappingCount, Memory, Part};

/// A runtime with its own heap.
pub struct RuntimeHeap {
    /// The name of its memory in reports, such as `Go's heap`.
    pub name: &'static str,
    /// What identifies its mappings.
    pub how: &'static str,
    /// The tool that divides it.
    pub tool: &'static str,
    /// Whether the process runs it.
    pub is_here: fn(&Sight) -> bool,
    /// Whether a mapping belongs to it. This is called only for private memory without a file.
    pub owns: fn(&Sight, &Mapping) -> bool,
}

/// All known runtimes.
pub const ALL: &[&RuntimeHeap] =
    &[&go::HEAP, &jvm::HEAP, &jvm::CODE, &v8::HEAP, &cpython::ARENAS, &php::KEPT, &php::HEAP];

/// The data by which a runtime is recognized.
pub struct Sight<'a> {
    /// The process's memory.
    pub memory: &'a dyn Memory,
    /// The file name of the process's executable.
    pub executable: &'a str,
}

impl Sight<'_> {
    /// Whether a file whose name begins with this text is mapped.
    fn has_file(&self, name: &str) -> bool {
        self.memory.mappings().iter().any(|mapping| mapping.inode != 0 && file(mapping).starts_with(name))
    }
}

/// The file name of a mapping. If the file was removed or replaced, the kernel adds a note, which is left out.
fn file(mapping: &Mapping) -> &str {
    let path = mapping.name.strip_suffix(" (deleted)").unwrap_or(&mapping.name);
    path.rsplit('/').next().unwrap_or_default()
}

/// The kind of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// The heap of a language runtime, or memory that the program named.
    Runtime,
    /// Stacks.
    Stacks,
    /// The program and its libraries.
    Program,
    /// Other mapped files.
    Files,
    /// Memory that other processes may see.
    Shared,
    /// The kind is not known.
    Unknown,
}

impl Sort {
    /// The part to which its bytes count; `None` if the kind is not known.
    pub fn part(self) -> Option<Part> {
        match self {
            Sort::Runtime => Some(Part::Runtime),
            Sort::Stacks => Some(Part::Stacks),
            Sort::Program | Sort::Files => Some(Part::Files),
            Sort::Shared => Some(Part::Shared),
            Sort::Unknown => None,
        }
    }
}

/// Resident memory outside of `malloc` heaps, such as thread stacks or a runtime's heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// Its name in reports.
    pub name: String,
    /// Its kind.
    pub sort: Sort,
    /// Resident bytes.
    #[serde(rename = "resident_bytes")]
    pub resident: u64,
    /// Its share of the resident bytes: a page that N processes have counts as one Nth for each. `None` if it was not read.
    #[serde(rename = "pss_bytes", default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
    /// The number of its mappings.
    pub mappings: u64,
    /// How these mappings were recognised; empty if the name says it.
    pub how: String,
    /// The tool that divides it; empty if there is none.
    pub tool: String,
    /// Its largest mappings, if their kind is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub largest: Vec<LargeMapping>,
}

impl Area {
    /// The holders of its mappings with their resident bytes, the largest first. Mappings without a holder are left out.
    pub fn holders(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> = Vec::new();
        for one in &self.largest {
            let Some(holder) = one.holder.as_deref() else { continue };
            match all.iter_mut().find(|(known, _)| *known == holder) {
                Some((_, bytes)) => *bytes += one.resident,
                None => all.push((holder, one.resident)),
            }
        }
        all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        all
    }
}

/// A mapping that the program made itself. The kernel merges adjacent mappings into one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeMapping {
    /// Its first address.
    pub at: u64,
    /// Its length.
    #[serde(rename = "mapped_bytes")]
    pub bytes: u64,
    /// Its resident bytes that are in no heap.
    #[serde(rename = "resident_bytes")]
    pub resident: u64,
    /// What points into it: a variable, a thread or a block. `None` if nothing was found, or the search was not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}

/// The most mappings of an area that are kept.
const LARGEST: usize = 64;

/// The areas of a process, in the order of reports. `divided` returns how many resident bytes of a mapping the walks have divided into
/// parts.
pub fn areas(sight: &Sight, counted: &[MappingCount], divided: &dyn Fn(&Mapping) -> u64) -> Vec<Area> {
    let here: Vec<&RuntimeHeap> = ALL.iter().copied().filter(|runtime| (runtime.is_here)(sight)).collect();
    let programs = programs(counted);
    let mut areas: Vec<Area> = Vec::new();
    for (at, one) in counted.iter().enumerate() {
        let rest = one.resident.saturating_sub(divided(&one.mapping));
        if rest == 0 {
            continue;
        }
        let found = found(sight, counted, at, &here, &programs);
        let area = match areas.iter().position(|area| area.name == found.name) {
            Some(known) => &mut areas[known],
            None => {
                areas.push(found);
                areas.last_mut().expect("one was pushed")
            }
        };
        area.resident += rest;
        let share = one.share.map(|share| allocanary_text::parts::in_proportion(share, rest, one.resident));
        area.share = area.share.zip(share).map(|(one, more)| one + more);
        area.mappings += 1;
        if area.sort == Sort::Unknown {
            let Mapping { from, to, .. } = one.mapping;
            area.largest.push(LargeMapping { at: from, bytes: to - from, resident: rest, holder: None });
        }
    }
    areas.iter_mut().for_each(|area| {
        area.largest.sort_by_key(|one| std::cmp::Reverse(one.resident));
        area.largest.truncate(LARGEST);
    });
    areas.sort_by_key(|area| (area.sort, std::cmp::Reverse(area.resident)));
    areas
}

/// The files with executable mappings: the program and its libraries. A file without a path (`memfd_create`) is left out: it has code that
/// a program made itself, such as Erlang's.
fn programs(counted: &[MappingCount]) -> BTreeSet<(u64, &str)> {
    let mappings = counted.iter().map(|one| &one.mapping);
    mappings
        .filter(|one| one.inode != 0 && one.executable && !one.is_memory_file())
        .map(|one| (one.inode, one.name.as_str()))
        .collect()
}

/// The area to which a mapping belongs, without its bytes.
fn found(
    sight: &Sight,
    counted: &[MappingCount],
    at: usize,
    here: &[&RuntimeHeap],
    programs: &BTreeSet<(u64, &str)>,
) -> Area {
    let mapping = &counted[at].mapping;
    let below = at.checked_sub(1).map(|at| &counted[at].mapping).filter(|below| below.to == mapping.from);
    let area = |name: &str, sort, how: &str, tool: &str| Area {
        name: name.into(),
        sort,
        resident: 0,
        share: Some(0),
        mappings: 0,
        how: how.into(),
        tool: tool.into(),
        largest: Vec::new(),
    };
    let name = mapping.name.as_str();
    let is_program = |mapping: &Mapping| programs.contains(&(mapping.inode, mapping.name.as_str()));
    if name.contains("java_heap") {
        return area(jvm::HEAP.name, Sort::Runtime, jvm::HEAP.how, jvm::HEAP.tool);
    }
    if mapping.shared && !is_program(mapping) {
        return match mapping.writable || mapping.is_memory_file() {
            true => area("shared memory", Sort::Shared, "", ""),
            false => area("mapped files", Sort::Files, "", ""),
        };
    }
    if mapping.inode != 0 || name.starts_with("[v") {
        let is_program = is_program(mapping) || name.starts_with("[v");
        return match is_program {
            true => area("program and libraries", Sort::Program, "", ""),
            false => area("mapped files", Sort::Files, "", ""),
        };
    }
    if stacks::is_stack(sight.memory, mapping, below) {
        return area(
            "stacks",
            Sort::Stacks,
            "a thread's own data in it, or that of a thread that has ended, above a guard page",
            "smaller stacks, fewer threads",
        );
    }
    if let Some(runtime) = here.iter().find(|runtime| (runtime.owns)(sight, mapping)) {
        return area(runtime.name, Sort::Runtime, runtime.how, runtime.tool);
    }
    // Data without a file, directly after the data of a program or a library.
    if below.is_some_and(|below| below.writable && is_program(below)) && mapping.bytes() <= MOST_BSS {
        return area("program and libraries", Sort::Program, "", "");
    }
    if let Some(named) = name.strip_prefix("[anon:").and_then(|name| name.strip_suffix(']')) {
        return area(&format!("named `{}`", named.trim()), Sort::Runtime, "the program named its mappings", "");
    }
    area("not known", Sort::Unknown, "", "")
}

/// A mapping after a library's data belongs to the library if it is at most this long. Few libraries have more.
const MOST_BSS: u64 = 1 << 20;

#[cfg(test)]
mod tests;
