//! Finds which sites of two runs are the same, by the identities of the sites.
//!
//! The runs may be of two versions. So a site is first searched in the same build, at the same place. If it is not there, other marks
//! follow, which two sites can share. Two sites are the same only if no other site of their run has these marks.

use std::collections::HashMap;

use allocanary_names::{FunctionId, NamedFrame};

/// The properties by which a site is recognised in another run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteKey {
    /// Its name in the tables.
    pub name: String,
    /// Its program or library.
    pub module: String,
    /// The build-id of that file; empty if it has none.
    pub build_id: String,
    /// The function; `None` if only its name is known.
    pub function: Option<FunctionId>,
    /// The line, if sites are lines; else 0.
    pub line: u32,
}

/// The number of marks.
const ROUNDS: usize = 6;

/// A mark of a site.
type Mark = [String; 4];

impl SiteKey {
    /// The key of a site with this name.
    pub fn of(name: &str, frame: &NamedFrame) -> SiteKey {
        SiteKey {
            name: name.into(),
            module: frame.module.clone(),
            build_id: frame.build_id.to_string(),
            function: frame.identity.as_ref().map(|of| (**of).clone()),
            line: frame.line,
        }
    }

    /// Whether its name is an address of this build.
    fn is_address(&self) -> bool {
        self.name.strip_prefix(&self.module).is_some_and(|rest| rest.starts_with("+0x"))
    }

    /// Its marks, the most certain first.
    fn marks(&self) -> [Option<Mark>; ROUNDS] {
        let mark = |parts: [&str; 4]| Some(parts.map(String::from));
        let place = match &self.function {
            Some(of) => {
                format!("{} {}:{}:{} {:#x} {}", of.path, of.file, of.line, of.column, of.address, self.line)
            }
            None => self.name.clone(),
        };
        let exact = mark([&self.module, &self.build_id, &place, ""]);
        if self.is_address() {
            return [exact, None, None, None, None, None];
        }
        // This mark pairs two sites of which only one has debug information.
        let without = mark([&self.module, &self.name, "", "without a file"]);
        let Some(FunctionId { path, file, .. }) = self.function.as_ref().filter(|_| self.line == 0) else {
            return [
                exact,
                None,
                None,
                mark([&self.module, &self.name, "", ""]),
                mark(["", &self.name, "", ""]),
                without,
            ];
        };
        // The folder in which a version was built may have another name.
        let short = file.rsplit('/').next().unwrap_or_default();
        [
            exact,
            mark([&self.module, path, file, ""]),
            mark([&self.module, path, short, "short"]),
            mark(["", path, short, "short"]),
            file.is_empty().then(|| [String::new(), self.name.clone(), String::new(), String::new()]),
            without,
        ]
    }
}

/// For each new site, the index of the same old one.
pub fn pairs(old: &[SiteKey], new: &[SiteKey]) -> Vec<Option<usize>> {
    let marks = |keys: &[SiteKey]| keys.iter().map(|key| key.marks()).collect::<Vec<_>>();
    let (of_old, of_new) = (marks(old), marks(new));
    let mut out: Vec<Option<usize>> = vec![None; new.len()];
    let mut is_free = vec![true; old.len()];
    let has_file = |key: &SiteKey| key.function.as_ref().is_some_and(|of| !of.file.is_empty());
    for round in 0..ROUNDS {
        let mut alike: HashMap<&Mark, (Vec<usize>, Vec<usize>)> = HashMap::new();
        for at in (0..old.len()).filter(|at| is_free[*at]) {
            of_old[at][round].iter().for_each(|mark| alike.entry(mark).or_default().0.push(at));
        }
        for at in (0..new.len()).filter(|at| out[*at].is_none()) {
            of_new[at][round].iter().for_each(|mark| alike.entry(mark).or_default().1.push(at));
        }
        for (before, now) in alike.into_values() {
            if let ([before], [now]) = (&before[..], &now[..])
                && (round + 1 < ROUNDS || has_file(&old[*before]) != has_file(&new[*now]))
            {
                out[*now] = Some(*before);
                is_free[*before] = false;
            }
        }
    }
    out
}

/// The names of the sites of both runs. Names differ within a run. If both runs have a name for different files, the file is added.
pub fn names(keys: &[&SiteKey]) -> Vec<String> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    keys.iter().for_each(|key| *count.entry(&key.name).or_default() += 1);
    let file = |key: &SiteKey| {
        let of = key.function.as_ref().filter(|_| count[key.name.as_str()] > 1)?;
        Some(of.file.rsplit('/').next().unwrap_or_default().to_string()).filter(|file| !file.is_empty())
    };
    let name = |key: &&SiteKey| match file(key) {
        Some(file) => format!("{} ({file})", key.name),
        None => key.name.clone(),
    };
    keys.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, module: &str, build: &str, file: &str, line: u32) -> SiteKey {
        let id = FunctionId { path: name.into(), file: file.into(), line, ..FunctionId::default() };
        SiteKey {
            name: name.into(),
            module: module.into(),
            build_id: build.into(),
            function: Some(id).filter(|_| !file.is_empty()),
            line: 0,
        }
    }

    /// Only one of the two files' functions held memory in each run.
    #[test]
    fn functions_of_one_name_in_two_files_are_two() {
        let [a, b] = ["/s/a.c", "/s/b.c"].map(|file| key("make", "app", "1", file, 7));
        assert_eq!(pairs(std::slice::from_ref(&a), std::slice::from_ref(&b)), [None]);
        assert_eq!(pairs(&[a.clone(), b.clone()], &[b, a]), [Some(1), Some(0)]);
    }

    #[test]
    fn a_name_of_two_files_gets_the_file() {
        let [a, b, c] = [("make", "/s/a.c"), ("make", "/s/b.c"), ("load", "/s/a.c")]
            .map(|(name, file)| key(name, "app", "1", file, 7));
        assert_eq!(names(&[&a, &b, &c]), ["make (a.c)", "make (b.c)", "load"]);
        assert_eq!(names(&[&a, &c]), ["make", "load"]);
    }

    #[test]
    fn another_version_has_moved_lines_folders_and_files() {
        let old = [key("load", "app", "1", "/v1/a.c", 7), key("make", "app", "1", "/v1/a.c", 9)];
        let new = [key("load", "app", "2", "/v1/a.c", 8), key("make", "app", "2", "/v2/a.c", 9)];
        assert_eq!(pairs(&old, &new), [Some(0), Some(1)]);
        let renamed = [key("load", "app-2", "2", "/v1/a.c", 8)];
        assert_eq!(pairs(&old, &renamed), [Some(0)]);
        // Two lambdas of a function, and a third one before them.
        let lambda = |line, build| key("f::{lambda}", "app", build, "/v1/a.cc", line);
        assert_eq!(pairs(&[lambda(1, "1"), lambda(2, "1")], &[lambda(2, "2"), lambda(3, "2")]), [None, None]);
    }

    #[test]
    fn a_build_without_debug_information_has_the_same_functions() {
        let with = key("load", "app", "1", "/v1/a.c", 7);
        let without = key("load", "app", "2", "", 0);
        let id = FunctionId { path: "load".into(), address: 16, ..FunctionId::default() };
        let symbol = SiteKey { function: Some(id), ..without.clone() };
        assert_eq!(pairs(std::slice::from_ref(&with), &[without]), [Some(0)]);
        assert_eq!(pairs(&[symbol], std::slice::from_ref(&with)), [Some(0)]);
        let other = key("load", "app", "2", "/v2/b.c", 7);
        assert_eq!(pairs(&[with], &[other]), [None], "both have a file, and it is another one");
    }

    #[test]
    fn an_address_is_one_of_its_build() {
        let at = |build: &str| key("app+0x12", "app", build, "", 0);
        assert_eq!(pairs(&[at("1")], &[at("1")]), [Some(0)]);
        assert_eq!(pairs(&[at("1")], &[at("2")]), [None]);
    }

    #[test]
    fn a_name_is_enough_where_nothing_else_is_known() {
        assert_eq!(pairs(&[key("f", "app", "1", "", 0)], &[key("f", "app", "2", "", 0)]), [Some(0)]);
        assert_eq!(pairs(&[key("f", "a.so.1", "1", "", 0)], &[key("f", "a.so.2", "2", "", 0)]), [Some(0)]);
        let two = [key("f", "a.so.2", "2", "", 0), key("f", "b.so", "3", "", 0)];
        assert_eq!(pairs(&[key("f", "a.so.1", "1", "", 0)], &two), [None, None]);
    }
}
