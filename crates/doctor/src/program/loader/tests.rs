use std::collections::BTreeMap;

use super::*;

const MACHINE: u16 = 62;

/// Files by their paths. Two paths may lead to one file.
#[derive(Default)]
struct Made(BTreeMap<PathBuf, (Id, Needs)>);

impl Made {
    /// Libraries that need others: `path: name name`.
    fn of(lines: &[&str]) -> Made {
        let mut made = Made::default();
        lines.iter().for_each(|line| made.add(line, |_| {}));
        made
    }

    fn add(&mut self, line: &str, change: impl Fn(&mut Needs)) {
        let (path, names) = line.split_once(':').unwrap();
        let mut needs = Needs { libraries: names.split_whitespace().map(OsString::from).collect(), ..library() };
        change(&mut needs);
        self.0.insert(path.into(), ((1, self.0.len() as u64), needs));
    }

    fn found(&self, program: &Needs, host: &HostLibraries) -> Vec<String> {
        let found = libraries(Path::new("/opt/bin/program"), program.clone(), host, self);
        found.into_iter().map(|path| path.display().to_string()).collect()
    }
}

impl LibraryFiles for Made {
    fn id(&self, path: &Path) -> Option<Id> {
        self.0.get(path).map(|(id, _)| *id)
    }

    fn needs(&self, path: &Path) -> Option<Needs> {
        self.0.get(path).map(|(_, needs)| needs.clone())
    }
}

fn library() -> Needs {
    Needs { machine: MACHINE, is_movable: true, ..Needs::default() }
}

fn program(loader: &str, names: &[&str]) -> Needs {
    let libraries = names.iter().map(OsString::from).collect();
    Needs { interpreter: Some(loader.into()), libraries, ..library() }
}

const LD: &str = "/lib64/ld-linux-x86-64.so.2";

fn entry(path: &str) -> CachedLibrary {
    CachedLibrary {
        name: path.rsplit('/').next().unwrap().into(),
        path: path.into(),
        is_special: path.contains("hwcaps"),
    }
}

#[test]
fn the_libraries_of_the_program_come_before_those_of_its_libraries() {
    let made = Made::of(&[
        "/usr/lib/a.so: c.so libc.so.6 d.so",
        "/usr/lib/b.so: c.so none.so",
        "/usr/lib/c.so: a.so",
        "/usr/lib/d.so:",
        "/usr/lib/libc.so.6: ld-linux-x86-64.so.2",
        "/lib64/ld-linux-x86-64.so.2:",
    ]);
    let found = made.found(&program(LD, &["a.so", "b.so"]), &HostLibraries::default());
    assert_eq!(found, ["/usr/lib/a.so", "/usr/lib/b.so", "/usr/lib/c.so", "/usr/lib/libc.so.6", "/usr/lib/d.so", LD]);
    let fixed = Needs { interpreter: None, ..program(LD, &["a.so"]) };
    assert!(made.found(&fixed, &HostLibraries::default()).is_empty(), "a static program has no loader");
}

#[test]
fn glibc_searches_rpath_then_the_environment_then_runpath_then_the_cache_then_its_folders() {
    let all = ["/r", "/named", "/run", "/cached", "/lib"].map(|folder| format!("{folder}/a.so:"));
    let host = HostLibraries { named: "/empty:/named".into(), cache: vec![entry("/cached/a.so")], musl: None };
    let old = Needs { rpath: Some("/r".into()), ..program(LD, &["a.so"]) };
    let new = Needs { runpath: Some("/run".into()), ..old.clone() };
    let found = |from: usize, program: &Needs| {
        let lines: Vec<&str> = all[from..].iter().map(String::as_str).collect();
        Made::of(&lines).found(program, &host)
    };
    assert_eq!(found(0, &old), ["/r/a.so"]);
    assert_eq!(found(0, &new), ["/named/a.so"], "with a RUNPATH the RPATH is ignored");
    assert_eq!(found(2, &new), ["/run/a.so"]);
    assert_eq!((found(2, &old), found(3, &new)), (vec!["/cached/a.so".into()], vec!["/cached/a.so".to_string()]));
    assert_eq!(found(4, &new), ["/lib/a.so"]);
    let not_usual = Needs { not_usual: true, ..new };
    assert!(found(4, &not_usual).is_empty());
}

#[test]
fn an_rpath_is_also_for_the_libraries_of_libraries_and_a_runpath_is_not() {
    let made = Made::of(&["/f/a.so: b.so", "/f/b.so:"]);
    let list = Some("/f".into());
    let old = Needs { rpath: list.clone(), ..program(LD, &["a.so"]) };
    let new = Needs { runpath: list.clone(), ..program(LD, &["a.so"]) };
    assert_eq!(made.found(&old, &HostLibraries::default()), ["/f/a.so", "/f/b.so"]);
    assert_eq!(made.found(&new, &HostLibraries::default()), ["/f/a.so"]);
    let of_musl = Needs { interpreter: Some("/lib/ld-musl-x86_64.so.1".into()), ..new };
    assert_eq!(made.found(&of_musl, &HostLibraries::default()), ["/f/a.so", "/f/b.so"]);
    let mut made = Made::of(&["/f/b.so:"]);
    made.add("/f/a.so: b.so", |needs| needs.runpath = Some("/none".into()));
    assert_eq!(
        made.found(&old, &HostLibraries::default()),
        ["/f/a.so"],
        "a library with a RUNPATH is searched only there"
    );
}

#[test]
fn variables_are_the_folder_of_the_file_that_has_them_and_what_this_host_has() {
    let paths = |text: &str| expanded(text.as_bytes(), Path::new("/opt/bin/program"));
    assert_eq!(paths("$ORIGIN/../lib"), [Path::new("/opt/bin/../lib")]);
    assert_eq!(paths("/a/${ORIGIN}x$PLATFORM"), [PathBuf::from(format!("/a//opt/binx{ARCH}"))]);
    let lib = [format!("/opt/bin/lib/{ARCH}-linux-gnu/x"), "/opt/bin/lib64/x".into(), "/opt/bin/lib/x".into()];
    assert_eq!(paths("$ORIGIN/$LIB/x"), lib.map(PathBuf::from));
    for unchanged in ["/a", "", "$", "a$", "$ORIGINAL/x", "${ORIGIN", "${ORIGIN/x}", "${}", "$OTHER"] {
        assert_eq!(paths(unchanged), [Path::new(unchanged)]);
    }
    assert_eq!(paths("$$ORIGIN"), [Path::new("$/opt/bin")]);

    let mut made = Made::of(&["/opt/bin/../lib/sub/b.so:", "/opt/bin/own/c.so:"]);
    made.add("/opt/bin/../lib/a.so: b.so", |needs| needs.runpath = Some("$ORIGIN/sub".into()));
    let needs = Needs { runpath: Some("${ORIGIN}/../lib".into()), ..program(LD, &["a.so", "$ORIGIN/own/c.so"]) };
    let wanted = ["/opt/bin/../lib/a.so", "/opt/bin/own/c.so", "/opt/bin/../lib/sub/b.so"];
    assert_eq!(made.found(&needs, &HostLibraries::default()), wanted);
}

#[test]
fn a_file_that_the_loader_would_not_take_is_passed_over() {
    let mut made = Made::default();
    made.add("/one/a.so:", |needs| needs.machine = 3);
    made.add("/two/a.so:", |needs| needs.is_movable = false);
    made.add("/three/a.so:", |_| {});
    let host = HostLibraries { named: "/one:/two;/three".into(), ..HostLibraries::default() };
    assert_eq!(made.found(&program(LD, &["a.so"]), &host), ["/three/a.so"]);
    let cache = ["/hwcaps/b.so", "/cached/b.so"].map(entry).to_vec();
    let made = Made::of(&["/hwcaps/b.so:", "/cached/b.so:"]);
    assert_eq!(
        made.found(&program(LD, &["b.so"]), &HostLibraries { cache, ..HostLibraries::default() }),
        ["/cached/b.so"]
    );
}

#[test]
fn a_library_is_mapped_once() {
    let mut made = Made::of(&["/lib/a.so:", "/usr/lib/a.so.1:"]);
    let same = made.0[Path::new("/lib/a.so")].clone();
    made.0.insert("/lib/link.so".into(), same);
    let needs = program(LD, &["a.so", "link.so", "/lib/a.so"]);
    assert_eq!(made.found(&needs, &HostLibraries::default()), ["/lib/a.so"]);
    made.add("/lib/named.so:", |needs| needs.name = Some("a.so.1".into()));
    let needs = program(LD, &["named.so", "a.so.1"]);
    assert_eq!(made.found(&needs, &HostLibraries::default()), ["/lib/named.so"], "it has the second name in itself");
}

#[test]
fn musl_is_its_own_c_library_and_has_its_own_folders() {
    let loader = "/lib/ld-musl-x86_64.so.1";
    let made = Made::of(&[
        "/lib/ld-musl-x86_64.so.1:",
        "/lib/libc.so.6:",
        "/usr/local/lib/a.so: libc.musl-x86_64.so.1",
        "/other/a.so:",
        "/lib64/b.so:",
    ]);
    let needs = program(loader, &["a.so", "b.so", "libpthread.so.0"]);
    assert_eq!(made.found(&needs, &HostLibraries::default()), ["/usr/local/lib/a.so", loader]);
    let host =
        HostLibraries { musl: Some("/none\n/other".into()), cache: vec![entry("/lib64/b.so")], named: "".into() };
    assert_eq!(made.found(&needs, &host), ["/other/a.so", loader], "its file, and no cache");
    let with = |list: &str| Needs { runpath: Some(list.into()), ..program(loader, &["a.so"]) };
    assert_eq!(made.found(&with("/other"), &HostLibraries::default()), ["/other/a.so"]);
    let found = made.found(&with("/other:$LIB"), &HostLibraries::default());
    assert_eq!(found, ["/usr/local/lib/a.so", loader], "a list with $LIB is void");
}

/// Files that are made to keep the search busy.
#[test]
fn the_search_is_limited() {
    struct Endless;
    impl LibraryFiles for Endless {
        fn id(&self, path: &Path) -> Option<Id> {
            let name = path.file_name()?.to_str()?;
            Some((1, name.parse().ok()?))
        }
        fn needs(&self, path: &Path) -> Option<Needs> {
            let (_, number) = self.id(path)?;
            Some(Needs { libraries: vec![(number + 1).to_string().into()], ..library() })
        }
    }
    let found = libraries(Path::new("/x"), program(LD, &["1"]), &HostLibraries::default(), &Endless);
    assert_eq!(found.len(), LIBRARIES);

    let names: Vec<String> = (0..2000).map(|number| format!("{number}.so")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let needs = Needs { rpath: Some("/a:".repeat(5000).into()), ..program(LD, &names) };
    let asked = std::cell::Cell::new(0);
    struct Counted<'a>(&'a std::cell::Cell<usize>);
    impl LibraryFiles for Counted<'_> {
        fn id(&self, _: &Path) -> Option<Id> {
            self.0.set(self.0.get() + 1);
            None
        }
        fn needs(&self, _: &Path) -> Option<Needs> {
            None
        }
    }
    assert!(libraries(Path::new("/x"), needs, &HostLibraries::default(), &Counted(&asked)).is_empty());
    assert!(asked.get() <= TRIES + 1, "{}", asked.get());
}
