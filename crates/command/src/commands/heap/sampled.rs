//! Finds where leaked blocks were allocated, if the process's own profile has sampled them. In: contents with the addresses of these
//! blocks, and the process. Out: the contents, with call sites.

use std::collections::{BTreeMap, HashMap};

use allocanary_contents::{Contents, LeakSite, Leaked};
use allocanary_heap::LiveProcess;
use allocanary_profile::reader;
use allocanary_who::sampled::NamedProfile;
use allocanary_who::{By, Folding};

/// Adds the call sites, and removes the addresses. A core file (`None`) has no process to read names from.
pub fn add(contents: &mut Contents, pid: Option<u32>) {
    let Some(leaked) = contents.leaked.as_mut().filter(|leaked| leaked.sampled.is_some()) else { return };
    let sampled: Vec<Vec<u64>> = leaked.rows.iter_mut().map(|row| std::mem::take(&mut row.sampled)).collect();
    let Some(pid) = pid else {
        leaked.sampled = None;
        return;
    };
    // The profile is read even if no leaked block seems to be sampled, because a table that cannot be read looks the same. A leaked block
    // is never freed, so the table still has it.
    let read = LiveProcess::open(pid).map_err(|error| error.to_string());
    let read = read.and_then(|live| reader::read(&live).map_err(|error| error.to_string()));
    let profile = match read {
        Ok(profile) => profile,
        Err(error) => {
            leaked.sampled = None;
            contents.problems.push(format!("call sites of leaked blocks are not told: {error}"));
            return;
        }
    };
    // The names are those of `who PID`.
    let reading = NamedProfile::of(profile);
    let mut names = reading.names();
    let groups = reading.groups(&mut names, By::Function, &Folding::default());
    named(leaked, &sampled, &reading.blocks(&groups).map(|(at, site, size)| (at, (site, size))).collect());
}

/// Adds up the sampled blocks of each row by their sites.
fn named(leaked: &mut Leaked, sampled: &[Vec<u64>], known: &HashMap<u64, (&str, u64)>) {
    for (row, sampled) in leaked.rows.iter_mut().zip(sampled) {
        let mut sites: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (name, size) in sampled.iter().filter_map(|at| known.get(at)) {
            let sum = sites.entry(name).or_default();
            *sum = (sum.0 + 1, sum.1 + size);
        }
        let site = |(name, (blocks, bytes)): (&str, (u64, u64))| LeakSite { name: name.into(), blocks, bytes };
        row.sites = sites.into_iter().map(site).collect();
        row.sites.sort_by_key(|site| std::cmp::Reverse(site.blocks));
    }
    leaked.sampled = Some(leaked.rows.iter().flat_map(|row| &row.sites).map(|site| site.blocks).sum());
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_contents::Lost;

    #[test]
    fn sampled_blocks_are_added_up_by_row_and_site() {
        let mut leaked = Leaked { rows: vec![Lost::default(); 2], sampled: Some(0), ..Leaked::default() };
        let known = HashMap::from([(1, ("b", 10)), (2, ("a", 20)), (3, ("a", 30)), (4, ("a", 40))]);
        // The last one is no longer in the table.
        named(&mut leaked, &[vec![1, 2, 3], vec![4, 5]], &known);
        let seen: Vec<Vec<(&str, u64, u64)>> = leaked
            .rows
            .iter()
            .map(|row| row.sites.iter().map(|site| (site.name.as_str(), site.blocks, site.bytes)).collect())
            .collect();
        assert_eq!(seen, [vec![("a", 2, 50), ("b", 1, 10)], vec![("a", 1, 40)]]);
        assert_eq!(leaked.sampled, Some(4));
    }

    #[test]
    fn of_a_core_nothing_is_told() {
        let row = Lost { sampled: vec![1], ..Lost::default() };
        let leaked = Leaked { rows: vec![row], sampled: Some(0), ..Leaked::default() };
        let mut contents = Contents { leaked: Some(leaked), ..Contents::default() };
        add(&mut contents, None);
        assert_eq!(contents.leaked, Some(Leaked { rows: vec![Lost::default()], ..Leaked::default() }));
    }
}
