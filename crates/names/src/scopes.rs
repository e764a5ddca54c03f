//! Identifies the function of a frame from the DWARF of its file: its name with its scopes, and the place of its declaration. For most
//! functions compilers write a linkage name, which has the scopes. For functions that are only inlined, and for the operators of lambdas,
//! they often write only a short name, which many functions share.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use addr2line::gimli::{
    self, AttributeValue, DebugInfoOffset, Dwarf, DwarfSections, EndianSlice, RunTimeEndian, Unit, constants,
};

use crate::frame::FunctionId;

/// The most references from one entry to the next that are followed.
const REFERENCES: usize = 16;
/// The most scopes of a name.
const DEPTH: usize = 64;

/// A class's scope, file and line.
type ClassPlace = (Option<usize>, Option<Rc<str>>, u32);

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// The scopes of a file's functions. A unit is read when one of its functions is looked up.
pub(crate) struct Scopes {
    sections: Rc<DwarfSections<Rc<[u8]>>>,
    endian: RunTimeEndian,
    /// The offset of each unit, sorted.
    units: Vec<usize>,
    /// Addresses of units, sorted.
    ranges: Vec<Range>,
    read: HashSet<usize>,
    /// Entries of the units that were read, by their offsets in the section.
    entries: HashMap<usize, Entry>,
    /// Classes without a name, such as those of lambdas, by scope, file and line.
    nameless: HashMap<ClassPlace, Vec<usize>>,
}

/// Addresses of a unit.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    begin: u64,
    end: u64,
    /// The largest end of this range and those before it.
    until: u64,
    unit: usize,
}

/// A function, or a scope of functions.
struct Entry {
    tag: gimli::DwTag,
    parent: Option<usize>,
    name: Option<Rc<str>>,
    /// The entry with the attributes that this one lacks.
    origin: Option<usize>,
    file: Option<Rc<str>>,
    line: u32,
    column: u32,
}

impl Entry {
    /// Whether it is a class without a name.
    fn is_nameless(&self) -> bool {
        let is_class = matches!(self.tag, constants::DW_TAG_class_type | constants::DW_TAG_structure_type);
        is_class && self.name.is_none() && self.origin.is_none()
    }
}

/// An entry, completed from the entries to which it refers.
#[derive(Default)]
struct Whole {
    name: Option<Rc<str>>,
    /// Its scope.
    scope: Option<usize>,
    file: Option<Rc<str>>,
    line: u32,
    column: u32,
}

impl Scopes {
    /// The scopes of a file's DWARF; `None` if it has none.
    pub(crate) fn of(sections: Rc<DwarfSections<Rc<[u8]>>>, endian: RunTimeEndian) -> Option<Scopes> {
        let mut scopes = Scopes {
            sections,
            endian,
            units: Vec::new(),
            ranges: Vec::new(),
            read: HashSet::new(),
            entries: HashMap::new(),
            nameless: HashMap::new(),
        };
        let (units, ranges) = scopes.layout();
        (scopes.units, scopes.ranges) = (units, ranges);
        (!scopes.ranges.is_empty()).then_some(scopes)
    }

    fn dwarf(&self) -> Dwarf<Slice<'_>> {
        self.sections.borrow(|section| EndianSlice::new(section, self.endian))
    }

    /// The offsets of units, and their addresses. Units whose entries are in another file are left out.
    fn layout(&self) -> (Vec<usize>, Vec<Range>) {
        let dwarf = self.dwarf();
        let (mut places, mut ranges) = (Vec::new(), Vec::new());
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Some(DebugInfoOffset(place)) = header.debug_info_offset() else { continue };
            places.push(place);
            let Ok(unit) = dwarf.unit(header) else { continue };
            if unit.dwo_id.is_some() {
                continue;
            }
            let Ok(mut found) = dwarf.unit_ranges(&unit) else { continue };
            while let Ok(Some(range)) = found.next() {
                ranges.push(Range { begin: range.begin, end: range.end, until: 0, unit: place });
            }
        }
        ranges.sort_unstable();
        let mut most = 0;
        for range in &mut ranges {
            most = most.max(range.end);
            range.until = most;
        }
        (places, ranges)
    }

    /// The function whose entry is at this offset of the unit with the address.
    pub(crate) fn find(&mut self, address: u64, entry: usize) -> Option<FunctionId> {
        let behind = self.ranges.partition_point(|range| range.begin <= address);
        let near = self.ranges[..behind].iter().rev().take_while(|range| range.until > address);
        let units: Vec<usize> = near.filter(|range| range.end > address).map(|range| range.unit).collect();
        units.into_iter().find_map(|unit| {
            self.read(unit);
            let place = unit.checked_add(entry)?;
            let tag = self.entries.get(&place)?.tag;
            let is_function = matches!(tag, constants::DW_TAG_subprogram | constants::DW_TAG_inlined_subroutine);
            is_function.then(|| self.identity(place)).flatten()
        })
    }

    fn identity(&mut self, place: usize) -> Option<FunctionId> {
        let Whole { name, mut scope, mut file, mut line, mut column } = self.whole(place)?;
        let mut names = vec![name?.to_string()];
        while let Some(at) = scope.filter(|_| names.len() < DEPTH) {
            let outer = self.whole(at)?;
            // The operator of a lambda has no place of declaration. Its class has a place, but no name.
            let is_first = names.len() == 1;
            if is_first && line == 0 {
                (file, line, column) = (outer.file.clone(), outer.line, outer.column);
            }
            match outer.name {
                Some(name) => names.push(name.to_string()),
                None if is_first && names[0] == "operator()" => {
                    let short = outer.file.as_ref().and_then(|file| file.rsplit('/').next()).unwrap_or_default();
                    let number = self.number(at, &outer);
                    names[0] = format!("{{lambda{number} at {short}:{}}}", outer.line);
                }
                None => names.push("(anonymous)".into()),
            }
            scope = outer.scope;
        }
        names.reverse();
        let file = file.map_or(String::new(), |file| file.to_string());
        Some(FunctionId { path: names.join("::"), file, line, column, address: 0 })
    }

    /// The number of a lambda's class among several in one line, such as `#2`. Empty if there is only one. Clang writes no columns, so the
    /// line alone does not distinguish them.
    fn number(&self, place: usize, class: &Whole) -> String {
        let alike = self.nameless.get(&(class.scope, class.file.clone(), class.line));
        let alike = alike.filter(|alike| alike.len() > 1);
        let at = alike.and_then(|alike| alike.iter().position(|one| *one == place));
        at.map_or(String::new(), |at| format!("#{}", at + 1))
    }

    /// A complete entry: missing attributes come from the entries to which it refers.
    fn whole(&mut self, place: usize) -> Option<Whole> {
        let (mut at, mut out) = (place, Whole::default());
        for _ in 0..REFERENCES {
            if !self.entries.contains_key(&at) {
                let unit = self.units.partition_point(|unit| *unit <= at).checked_sub(1)?;
                self.read(self.units[unit]);
            }
            let entry = self.entries.get(&at)?;
            out.name = out.name.or_else(|| entry.name.clone());
            if out.line == 0 && entry.line > 0 {
                (out.file, out.line, out.column) = (entry.file.clone(), entry.line, entry.column);
            }
            let Some(origin) = entry.origin else {
                out.scope = entry.parent;
                if entry.tag == constants::DW_TAG_namespace {
                    out.name = out.name.or_else(|| Some("(anonymous namespace)".into()));
                }
                return Some(out);
            };
            at = origin;
        }
        None
    }

    /// Reads the entries of a unit, once. Reading ends at damage.
    fn read(&mut self, place: usize) {
        if self.read.insert(place) {
            let mut entries = HashMap::new();
            // The entries before the damage are kept.
            let _ = self.entries_of(place, &mut entries);
            let mut classes: Vec<(&usize, &Entry)> = entries.iter().filter(|(_, entry)| entry.is_nameless()).collect();
            classes.sort_unstable_by_key(|(place, _)| **place);
            for (place, class) in classes {
                let key = (class.parent, class.file.clone(), class.line);
                self.nameless.entry(key).or_default().push(*place);
            }
            self.entries.extend(entries);
        }
    }

    fn entries_of(&self, place: usize, out: &mut HashMap<usize, Entry>) -> gimli::Result<()> {
        let dwarf = self.dwarf();
        let unit = dwarf.unit(dwarf.debug_info.header_from_offset(DebugInfoOffset(place))?)?;
        let mut files: HashMap<u64, Option<Rc<str>>> = HashMap::new();
        // The scopes of the present entry, with their depths.
        let mut scopes: Vec<(isize, usize)> = Vec::new();
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            let (depth, at) = (entries.next_depth(), place + entries.next_offset().0);
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while scopes.last().is_some_and(|(of, _)| *of >= depth) {
                scopes.pop();
            }
            let tag = abbreviation.tag();
            if !is_scope(tag) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let parent = scopes.last().map(|(_, scope)| *scope);
            let mut entry = Entry { tag, parent, name: None, origin: None, file: None, line: 0, column: 0 };
            for specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                let number = || attribute.udata_value().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
                match attribute.name() {
                    constants::DW_AT_name => {
                        let name = dwarf.attr_string(&unit, attribute.value()).ok();
                        entry.name = name.map(|name| name.to_string_lossy().into());
                    }
                    constants::DW_AT_abstract_origin | constants::DW_AT_specification => {
                        entry.origin = match attribute.value() {
                            AttributeValue::UnitRef(offset) => Some(place.saturating_add(offset.0)),
                            AttributeValue::DebugInfoRef(offset) => Some(offset.0),
                            _ => None,
                        };
                    }
                    constants::DW_AT_decl_file => {
                        if let AttributeValue::FileIndex(file) = attribute.value() {
                            entry.file = files.entry(file).or_insert_with(|| path(&dwarf, &unit, file)).clone();
                        }
                    }
                    constants::DW_AT_decl_line => entry.line = number(),
                    constants::DW_AT_decl_column => entry.column = number(),
                    _ => {}
                }
            }
            scopes.push((depth, at));
            out.insert(at, entry);
        }
        Ok(())
    }
}

/// Whether an entry is a function or can contain one. A block within a function does not count: functions in it belong to the outer
/// function.
fn is_scope(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        constants::DW_TAG_subprogram
            | constants::DW_TAG_inlined_subroutine
            | constants::DW_TAG_namespace
            | constants::DW_TAG_class_type
            | constants::DW_TAG_structure_type
            | constants::DW_TAG_union_type
            | constants::DW_TAG_enumeration_type
            | constants::DW_TAG_interface_type
    )
}

/// The whole path of a file of a unit.
fn path(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, file: u64) -> Option<Rc<str>> {
    let header = unit.line_program.as_ref()?.header();
    let entry = header.file(file)?;
    let mut whole =
        std::path::PathBuf::from(unit.comp_dir.as_ref().map_or("".into(), |path| path.to_string_lossy()).as_ref());
    if let Some(folder) = entry.directory(header) {
        whole.push(dwarf.attr_string(unit, folder).ok()?.to_string_lossy().as_ref());
    }
    whole.push(dwarf.attr_string(unit, entry.path_name()).ok()?.to_string_lossy().as_ref());
    // A header may have many paths: `/src/a/../b.h` is `/src/b.h`.
    let mut parts: Vec<std::path::Component<'_>> = Vec::new();
    for part in whole.components() {
        let is_up = part == std::path::Component::ParentDir;
        match parts.last() {
            Some(std::path::Component::Normal(_)) if is_up => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    Some(parts.iter().collect::<std::path::PathBuf>().to_string_lossy().into())
}
