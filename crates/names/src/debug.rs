//! Reads the DWARF of a file, so that lines, inlined functions and the scopes of functions can be looked up by address. Its sections are
//! read and not mapped, because the file may be truncated meanwhile. Entries in other files (`.dwo`, `.dwp`) are not read: otherwise a
//! hostile file would decide which files are opened.

use std::rc::Rc;

use addr2line::Context;
use addr2line::gimli::{Dwarf, DwarfSections, EndianRcSlice, Error, Reader, RunTimeEndian, Section, SectionId};
use allocanary_process::Opened;
use allocanary_process::elf::Elf;

use crate::scopes::Scopes;

/// The debug information of one file.
pub(crate) struct Debug {
    pub lines: Context<EndianRcSlice<RunTimeEndian>>,
    pub scopes: Option<Scopes>,
}

/// The most bytes of debug information that are read for all files together. The reader has about 256 MiB, and the data built from these
/// bytes need as much again.
pub(crate) const MOST: u64 = 96 << 20;

impl Debug {
    /// Reads the debug information; `None` if the file has none. The error says why it was not read.
    pub(crate) fn of(file: &Opened, elf: &Elf<'_>, left: &mut u64) -> Result<Option<Debug>, String> {
        let mut wanted = None;
        let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let mut section = |id: SectionId| -> Result<Rc<[u8]>, Error> {
            // Other sections have no names, and are large.
            let is_wanted = matches!(
                id,
                SectionId::DebugInfo
                    | SectionId::DebugAbbrev
                    | SectionId::DebugAddr
                    | SectionId::DebugAranges
                    | SectionId::DebugLine
                    | SectionId::DebugLineStr
                    | SectionId::DebugRanges
                    | SectionId::DebugRngLists
                    | SectionId::DebugStr
                    | SectionId::DebugStrOffsets
            );
            let bytes = match elf.whole(file, if is_wanted { id.name() } else { "" }, *left) {
                Ok(bytes) => bytes.unwrap_or_default(),
                Err(bytes) => {
                    wanted = Some(bytes);
                    Vec::new()
                }
            };
            *left -= bytes.len() as u64;
            Ok(bytes.into())
        };
        let sections: DwarfSections<Rc<[u8]>> = DwarfSections::load(&mut section).map_err(|error| error.to_string())?;
        if let Some(bytes) = wanted {
            return Err(format!(
                "its debug information has a section of {} MiB, and at most {} MiB are read for all files",
                bytes >> 20,
                MOST >> 20
            ));
        }
        let sections = Rc::new(sections);
        let dwarf: Dwarf<EndianRcSlice<RunTimeEndian>> =
            sections.borrow(|section| EndianRcSlice::new(section.clone(), endian));
        if dwarf.debug_info.reader().is_empty() {
            return Ok(None);
        }
        let Ok(lines) = Context::from_dwarf(dwarf) else { return Ok(None) };
        Ok(Some(Debug { lines, scopes: Scopes::of(sections, endian) }))
    }
}
