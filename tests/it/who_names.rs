//! The names of call sites in programs that have misled demanglers: by debug information, by symbols alone, and stripped. Each function keeps
//! 100 blocks of a size of its own, which says what its name has to be.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use allocanary_testing::programs::compiled_to;
use allocanary_testing::skipped::skipped;
use serde_json::Value;
use tempfile::tempdir;

use super::record::traces;
use super::support::{allocanary, words};

/// The size of the blocks of each site and its name, as `who` prints them with these flags.
fn sites(folder: &Path, program: &Path, line: &str) -> BTreeSet<(u64, String)> {
    let trace = recorded(folder, program);
    let ran = allocanary(folder, [&["who", trace.to_str().unwrap(), "--json"][..], &words(line)].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    let site = |site: &Value| {
        let [bytes, blocks] = ["allocated_total_bytes", "allocations"].map(|key| site[key].as_u64().unwrap());
        (bytes / blocks, site["name"].as_str().unwrap().to_string())
    };
    found["sites"].as_array().unwrap().iter().map(site).collect()
}

fn recorded(folder: &Path, program: &Path) -> PathBuf {
    let out = folder.join(format!("{}-traces", program.file_name().unwrap().to_str().unwrap()));
    if !out.exists() {
        let out = out.to_str().unwrap();
        let ran = allocanary(folder, ["record", "-o", out, "--stack-sample", "all", "--", program.to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    traces(&out).pop().expect("a trace")
}

fn compiled(folder: &Path, source: &str, out: &str, flags: &[&str]) -> Option<PathBuf> {
    let given = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record");
    // A source of C is compiled as C++ too.
    let (is_cpp, of_c) = (source == "one.cpp", given.join("one.c"));
    let source = if is_cpp { folder.join(source) } else { given.join(source) };
    if is_cpp {
        fs::write(&source, format!("#include \"{}\"\n", of_c.display())).unwrap();
    }
    compiled_to(&folder.join(out), &[&source], &[&["-pthread", "-w"], flags].concat())
}

fn is_not_here() -> bool {
    cfg!(not(all(target_arch = "x86_64", target_env = "gnu")))
}

/// The functions of `one.c`; the first one's blocks have 1,001 bytes.
const ONE: &str = "a b c d e f g h i j l m n s t v w x y z Pc St Sa Ss Di PKc Si So Dn xx Da grow_realloc table_calloc";

#[test]
fn functions_with_short_names_are_called_so() {
    if is_not_here() {
        return skipped("stacks need x86-64 and glibc");
    }
    let folder = tempdir().unwrap();
    for (source, out, flags) in [
        ("one.c", "symbols", &["-O1"][..]),
        ("one.c", "lines", &["-O1", "-g"]),
        ("one.c", "static", &["-O1", "-g", "-DLOCAL=static"]),
        ("one.cpp", "cpp", &["-O1", "-g", "-DLOCAL=static"]),
    ] {
        let Some(program) = compiled(folder.path(), source, out, flags) else { return };
        for line in ["", "--no-fold"] {
            let found = sites(folder.path(), &program, line);
            for (size, name) in (1001..).zip(ONE.split(' ')) {
                assert!(found.contains(&(size, name.to_string())), "{out} {line}: {size} bytes, {name}: {found:?}");
            }
        }
    }
    let Some(program) = compiled(folder.path(), "one.c", "stripped", &["-O1", "-s"]) else { return };
    is_nameless(&sites(folder.path(), &program, ""), 1001..1001 + ONE.split(' ').count() as u64);
}

/// Each site of these sizes is an address of the program, and no guess.
fn is_nameless(found: &BTreeSet<(u64, String)>, sizes: std::ops::Range<u64>) {
    let mut of_program = found.iter().filter(|(size, _)| sizes.contains(size)).peekable();
    assert!(of_program.peek().is_some(), "{found:?}");
    assert!(of_program.all(|(_, name)| name.starts_with("stripped+0x")), "{found:?}");
}

/// The sizes of the sites of `names.cpp` and their names: by debug information, and by symbols where they differ.
const NAMES: &[(u64, &str, &str)] = &[
    (1001, "void tmpl<A1001>(int)", ""),
    (1002, "void tmpl<A1002>(int)", ""),
    (1003, "(anonymous namespace)::anon_fn", "(anonymous namespace)::anon_fn()"),
    (1004, "D1::go()", ""),
    (1005, "D2::go()", ""),
    (1009, "Ctor::Ctor()", ""),
    (1017, "by_function::{lambda at names.cpp:39}", "by_function()"),
    (
        1018,
        "outer::(anonymous namespace)::inner::X<0>::m<int>",
        "void outer::(anonymous namespace)::inner::X<0>::m<int>(int)",
    ),
    (
        1018,
        "outer::(anonymous namespace)::inner::X<0>::m<char>",
        "void outer::(anonymous namespace)::inner::X<0>::m<char>(char)",
    ),
    (1020, "local_class::L::m", "local_class()::L::m()"),
    (1021, "local_class2::L::m", "local_class2()::L::m()"),
    (1022, "rec", "rec(int)"),
    (1025, "dup()", ""),
    (1029, "operator+(D1 const&, D2 const&)", ""),
    (1030, "Conv::operator int() const", ""),
    (1031, "Conv::operator()(int)", ""),
    (1032, "Conv::operator[](int)", ""),
    (1088, "alig()", ""),
];

/// What only debug information has: inlined functions, and lambdas.
const INLINED: &[(u64, &str)] = &[
    (1006, "inl_inner"),
    (1008, "Own::operator new(unsigned long)"),
    (1010, "lambdas::{lambda#1 at names.cpp:32}"),
    (1011, "lambdas::{lambda#2 at names.cpp:32}"),
    (1012, "lambdas_same_line::{lambda#1 at names.cpp:33}"),
    (1013, "lambdas_same_line::{lambda#2 at names.cpp:33}"),
    (1023, "th::{lambda at names.cpp:44}"),
    (1024, "Init::Init()"),
];

/// Without debug information an inlined function is a part of the one around it.
const AROUND: &[(u64, &str)] = &[
    (1006, "calls_inl_a()"),
    (1007, "calls_inl_b()"),
    (1008, "use_own()"),
    (1012, "void call_it<lambdas_same_line()::{lambda()#1}>(lambdas_same_line()::{lambda()#1})"),
    (1013, "void call_it<lambdas_same_line()::{lambda()#2}>(lambdas_same_line()::{lambda()#2})"),
];

#[test]
fn functions_of_cpp_are_called_as_in_their_source() {
    if is_not_here() {
        return skipped("stacks need x86-64 and glibc");
    }
    let folder = tempdir().unwrap();
    let flags = ["-std=c++20", "-O2"];
    let of = |out: &str, more: &str| {
        let program = compiled(folder.path(), "names.cpp", out, &[&flags[..], &[more]].concat())?;
        Some(sites(folder.path(), &program, ""))
    };
    let (Some(lines), Some(symbols)) = (of("lines", "-g"), of("symbols", "-g0")) else { return };
    let has = |found: &BTreeSet<(u64, String)>, size: u64, name: &str| {
        assert!(found.contains(&(size, name.to_string())), "{size} bytes, {name}: {found:?}");
    };
    for (size, line, symbol) in NAMES {
        has(&lines, *size, line);
        has(&symbols, *size, if symbol.is_empty() { line } else { symbol });
    }
    INLINED.iter().for_each(|(size, name)| has(&lines, *size, name));
    AROUND.iter().for_each(|(size, name)| has(&symbols, *size, name));
    let Some(stripped) = of("stripped", "-s") else { return };
    is_nameless(&stripped, 1001..1089);
}

/// Each of two files has a `make`; the argument says whose blocks live.
#[test]
fn functions_of_one_name_are_two_in_every_output() {
    if is_not_here() {
        return skipped("stacks need x86-64 and glibc");
    }
    let folder = tempdir().unwrap();
    let source = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let make = |caller: &str, size: u32| {
        format!(
            "#include <stdlib.h>\nstatic __attribute__((noinline)) void make(int k) {{ while (k--) {{ void *volatile p = malloc({size}); (void)p; }} }}\n\
             void {caller}(int k) {{ make(k); }}\n"
        )
    };
    let (a, b) = (source("a.c", &make("from_a", 1001)), source("b.c", &make("from_b", 3003)));
    let main = "void from_a(int), from_b(int); int main(void) { from_a(100 * A); from_b(100 * B); return 0; }\n";
    let main = source("main.c", main);
    let program = |a_lives: u32, b_lives: u32| {
        let (of_a, of_b) = (format!("-DA={a_lives}"), format!("-DB={b_lives}"));
        let program = folder.path().join(format!("two{a_lives}{b_lives}"));
        compiled_to(&program, &[&a, &b, &main], &["-O1", "-g", &of_a, &of_b])
    };
    let (Some(first), Some(second), Some(both)) = (program(1, 0), program(0, 1), program(1, 1)) else { return };
    let [first, second, both] = [first, second, both].map(|program| recorded(folder.path(), &program));
    let who = |trace: &Path, line: &str| {
        let ran = allocanary(folder.path(), [&["who", trace.to_str().unwrap()][..], &words(line)].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out
    };
    who(&both, "--sort allocated --format collapsed --output stacks --short");
    let stacks = fs::read_to_string(folder.path().join("stacks")).unwrap();
    for line in [";from_a;make (a.c) 100100", ";from_b;make (b.c) 300300"] {
        assert!(stacks.lines().any(|found| found.ends_with(line)), "{stacks}");
    }
    let found: Value = serde_json::from_str(&who(&second, &format!("--json --against {}", first.display()))).unwrap();
    let of = |name: &str| {
        let changes = found["changes"].as_array().unwrap();
        let change = changes.iter().find(|change| change["name"] == name).unwrap_or_else(|| panic!("{found}"));
        ["before", "now"].map(|when| change[when]["requested_bytes"].as_u64().unwrap())
    };
    assert_eq!((of("make (a.c)"), of("make (b.c)")), ([100_100, 0], [0, 300_300]));
}
