use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_testing::programs::compiled;
use allocanary_testing::programs::{compiled_text, compiled_to};
use allocanary_testing::skipped::skipped;
use allocanary_trace::stacks::{StackNode, TraceModule};
use object::{Object, ObjectSymbol};

use super::*;
use crate::frame::NameSource;

const SOURCE: &str = "\
static inline __attribute__((always_inline)) int inlined(int *p) {
    return *p + 1;
}
__attribute__((noinline)) int outer(int *p) {
    return inlined(p);
}
int main(int argc, char **argv) {
    (void)argv;
    return outer(&argc);
}
";

struct Built {
    folder: tempfile::TempDir,
    program: PathBuf,
    build_id: Vec<u8>,
    /// The address of `outer`.
    outer: u64,
}

/// A program, compiled with lines.
fn built() -> Option<Built> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("names.c");
    std::fs::write(&source, SOURCE).unwrap();
    let program = compiled(&source, folder.path(), &["-g", "-Wl,--build-id=sha1"])?;
    let bytes = std::fs::read(&program).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let outer = object.symbols().find(|symbol| symbol.name() == Ok("outer")).expect("its symbol").address();
    let build_id = object.build_id().unwrap().expect("a build-id").to_vec();
    Some(Built { folder, program, build_id, outer })
}

/// Stacks of one frame, which returns to the second byte of `outer`. All addresses are higher by the bias.
fn stacks(built: &Built) -> Stacks {
    const BIAS: u64 = 0x5555_0000_0000;
    let module = TraceModule {
        start: BIAS,
        end: BIAS + (1 << 20),
        bias: BIAS,
        path: built.program.display().to_string(),
        build_id: built.build_id.clone(),
    };
    let nodes = vec![StackNode::default(), StackNode { parent: 0, pc: BIAS + built.outer + 1, module: 0 }];
    Stacks { nodes, modules: vec![module] }
}

fn stripped(built: &Built) -> Option<()> {
    match Command::new("strip").arg(&built.program).status() {
        Ok(status) if status.success() => Some(()),
        _ => {
            skipped("strip is not installed");
            None
        }
    }
}

fn functions(frames: &[NamedFrame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.function.as_str()).collect()
}

/// Where a distribution puts the debug file of a build.
fn debug_file(folder: &Path, build_id: &[u8]) -> PathBuf {
    let rest: String = build_id[1..].iter().map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!(".build-id/{:02x}/{rest}.debug", build_id[0]))
}

#[test]
fn a_frame_has_its_inlined_functions_and_lines() {
    let Some(built) = built() else { return };
    let stacks = stacks(&built);
    let frames = FrameNames::with(&stacks, Path::new("/nowhere")).stack(1);
    assert_eq!(functions(&frames), ["inlined", "outer"]);
    assert!(frames[0].file.ends_with("names.c") && frames[0].line == 2, "{frames:?}");
    assert_eq!((frames[1].line, frames[1].module.as_str(), frames[1].is_named()), (5, "names", true));
}

/// If a call is the last instruction of a function, it returns to the next function.
#[test]
fn a_return_to_the_first_byte_of_a_function_is_of_the_one_before() {
    let Some(built) = built() else { return };
    let mut stacks = stacks(&built);
    stacks.nodes[1].pc -= 1;
    let frames = FrameNames::with(&stacks, Path::new("/nowhere")).stack(1);
    assert!(frames.iter().all(|frame| frame.function != "outer"), "{frames:?}");
}

#[test]
fn a_stripped_file_has_offsets_and_its_debug_file_has_the_names() {
    let Some(built) = built() else { return };
    let debug = built.folder.path().join("debug");
    let place = debug_file(&debug, &built.build_id);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::copy(&built.program, &place).unwrap();
    let Some(()) = stripped(&built) else { return };
    let stacks = stacks(&built);
    let frames = FrameNames::with(&stacks, Path::new("/nowhere")).stack(1);
    assert_eq!(functions(&frames), [format!("names+{:#x}", built.outer + 1)]);
    assert!(!frames[0].is_named());
    let mut names = FrameNames::with(&stacks, &debug);
    assert_eq!(functions(&names.stack(1)), ["inlined", "outer"]);
    assert!(names.notes().is_empty(), "{:?}", names.notes());
    // A file of another build in that place is refused.
    let mut other = stacks.clone();
    other.modules[0].build_id[0] ^= 1;
    let wrong = debug_file(&debug, &other.modules[0].build_id);
    std::fs::create_dir_all(wrong.parent().unwrap()).unwrap();
    std::fs::copy(&place, wrong).unwrap();
    assert!(!FrameNames::with(&other, &debug).stack(1)[0].is_named());
}

/// Runs a tool on a file in the folder of the program.
fn tool(built: &Built, line: &[&str]) -> Option<()> {
    match Command::new(line[0]).args(&line[1..]).current_dir(built.folder.path()).status() {
        Ok(status) if status.success() => Some(()),
        _ => {
            skipped(format!("{} is not installed", line[0]));
            None
        }
    }
}

/// As Fedora's packages are made, and two that were made to harm: cut, and with more bytes than are unpacked.
#[test]
fn a_stripped_file_may_have_its_symbols_packed() {
    let Some(built) = built() else { return };
    let names = built.program.to_str().unwrap();
    let Some(()) = tool(&built, &["strip", "--strip-debug", "-o", "symbols", names]) else { return };
    let Some(()) = stripped(&built) else { return };
    let symbols = std::fs::read(built.folder.path().join("symbols")).unwrap();
    for (section, wanted, note) in [
        (symbols, "outer".to_string(), None),
        (b"\xfd7zXZ\0cut".to_vec(), format!("names+{:#x}", built.outer + 1), Some("cannot be read")),
        (vec![0; 33 << 20], format!("names+{:#x}", built.outer + 1), Some("more than 32 MiB")),
    ] {
        std::fs::write(built.folder.path().join("mini"), &section).unwrap();
        if section.starts_with(b"\xfd7zXZ") {
            std::fs::rename(built.folder.path().join("mini"), built.folder.path().join("mini.xz")).unwrap();
        } else {
            let Some(()) = tool(&built, &["xz", "-f", "mini"]) else { return };
        }
        let added =
            ["objcopy", "--remove-section", ".gnu_debugdata", "--add-section", ".gnu_debugdata=mini.xz", names, names];
        let Some(()) = tool(&built, &added) else { return };
        let stacks = stacks(&built);
        let mut found = FrameNames::with(&stacks, Path::new("/nowhere"));
        assert_eq!(functions(&found.stack(1)), [wanted]);
        assert_eq!(found.notes().iter().any(|said| note.is_some_and(|note| said.contains(note))), note.is_some());
    }
}

#[test]
fn a_program_that_was_replaced_is_told_and_not_used() {
    let Some(built) = built() else { return };
    let mut stacks = stacks(&built);
    stacks.modules[0].build_id[0] ^= 1;
    let mut names = FrameNames::with(&stacks, Path::new("/nowhere"));
    assert!(!names.stack(1)[0].is_named());
    let [note] = &names.notes()[..] else { panic!("{:?}", names.notes()) };
    assert!(note.contains("is not the file that was recorded: wanted build-id") && note.contains("not used"), "{note}");
    stacks.modules[0].path = "/nowhere/names (deleted)".into();
    let mut names = FrameNames::with(&stacks, Path::new("/nowhere"));
    assert_eq!(functions(&names.stack(1)), [format!("names+{:#x}", built.outer + 1)]);
    assert!(names.notes()[0].starts_with("/nowhere/names: "), "{:?}", names.notes());
    stacks.modules[0].path = "/dev/zero".into();
    let mut names = FrameNames::with(&stacks, Path::new("/nowhere"));
    names.stack(1);
    assert!(names.notes()[0].contains("not a regular file"), "{:?}", names.notes());
}

#[test]
fn an_address_without_a_module_is_itself() {
    let stacks = Stacks {
        nodes: vec![StackNode::default(), StackNode { parent: 0, pc: 0x1234, module: 0 }],
        modules: Vec::new(),
    };
    assert_eq!(functions(&FrameNames::of(&stacks).stack(1)), ["0x1234"]);
}

/// The code of Python's interpreter is in a file; the code of Python's functions is not.
#[test]
fn code_that_is_in_no_file_is_named_by_the_map_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    let node = |parent, pc| StackNode { parent, pc, module: 0 };
    let module = |path: &str| TraceModule { start: 100, end: 200, path: path.into(), ..TraceModule::default() };
    let stacks = Stacks {
        nodes: vec![
            node(0, 0),
            node(0, 150),
            node(1, 0x1006),
            node(2, 160),
            node(2, 0x2006),
            node(4, 150),
            node(4, 151),
        ],
        modules: vec![module("libpython3.12.so.1.0")],
    };
    let names_of = |stack| {
        let mut names = FrameNames::of(&stacks).with_map_of(&trace);
        let found: Vec<String> = names.stack(stack).into_iter().map(|frame| frame.function).collect();
        (found, names.notes())
    };
    let without = names_of(1);
    assert_eq!(without.1, ["The functions of Python are not named: record with PYTHONPERFSUPPORT=1."]);
    let nameless = names_of(3);
    assert_eq!(nameless.0[1], "0x1006");
    assert!(nameless.1[0].starts_with("1 stack passes through code that is in no file and that no perf map names: "));
    std::fs::write(perf_map::beside(&trace), "1000 b py::load:/srv/\u{1b}app.py\n90 8 py::in_a_file:/x.py\n").unwrap();
    let (found, notes) = names_of(3);
    assert_eq!((found[1].as_str(), notes.len()), ("load:/srv/\u{fffd}app.py", 0));
    assert_eq!(found[2], "libpython3.12.so.1.0+0x96", "what is in a file is the file's");
    let mut names = FrameNames::of(&stacks).with_map_of(&trace);
    for stack in [5, 6, 6] {
        names.stack(stack);
    }
    assert!(
        names.notes()[0]
            .starts_with("2 stacks pass through code that is in no file and that its perf map does not name")
    );
    // If a call is the last instruction, it returns to the next function.
    assert_eq!(names.frames(CodePlace { pc: 0x100b, module: 0 })[0].function, "load:/srv/\u{fffd}app.py");
    assert!(!names.frames(CodePlace { pc: 0x1000, module: 0 })[0].is_named());
    std::fs::remove_file(perf_map::beside(&trace)).unwrap();
    std::fs::create_dir(perf_map::beside(&trace)).unwrap();
    assert!(names_of(3).1[0].contains("a.trace.perfmap: wanted a regular file"));
}

#[test]
fn a_python_that_can_write_a_map_is_told_by_its_version() {
    let makes = ["python3.12", "python3.13t", "libpython3.12.so.1.0", "python3.20"];
    assert!(makes.into_iter().all(makes_maps));
    let none = ["python3.11", "python3", "python3.1", "libpython2.7.so", "app", "python3.", "python3.x12"];
    assert!(!none.into_iter().any(makes_maps));
}

/// Stacks of one frame each, which return to the byte after these addresses of a program.
fn stacks_at(program: &Path, addresses: &[u64]) -> Stacks {
    let bytes = std::fs::read(program).unwrap();
    let build_id = object::File::parse(&*bytes).unwrap().build_id().unwrap().expect("a build-id").to_vec();
    let module = TraceModule { start: 0, end: 1 << 30, bias: 0, path: program.display().to_string(), build_id };
    let node = |address: &u64| StackNode { parent: 0, pc: address + 1, module: 0 };
    let nodes = [StackNode::default()].into_iter().chain(addresses.iter().map(node)).collect();
    Stacks { nodes, modules: vec![module] }
}

/// The addresses of the symbols whose names contain this text.
fn symbols(program: &Path, part: &str) -> Vec<u64> {
    let bytes = std::fs::read(program).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let named = object.symbols().filter(|symbol| symbol.name().is_ok_and(|name| name.contains(part)));
    let mut found: Vec<u64> = named.map(|symbol| symbol.address()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Each function calls an inlined function whose name others have too: the compiler writes no linkage name for it.
const SCOPED: &str = "\
volatile int sink;
#define INLINED static inline __attribute__((always_inline))
namespace a { INLINED void get() { sink = 1; } }
namespace b { INLINED void get() { sink = 2; } }
namespace { struct Pool { INLINED void get() { sink = 3; } }; }
extern \"C\" {
__attribute__((noinline)) void calls_1() { a::get(); }
__attribute__((noinline)) void calls_2() { b::get(); }
__attribute__((noinline)) void calls_3() { Pool::get(); }
__attribute__((noinline)) void calls_4() { auto set = [] { sink = 4; }; set(); }
__attribute__((noinline)) void calls_5() { auto set = [] { sink = 5; }; set(); }
}
int main() {
    calls_1(); calls_2(); calls_3(); calls_4(); calls_5();
    return 0;
}
";

#[test]
fn a_function_has_the_name_of_all_that_it_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-g", "-Wl,--build-id=sha1"];
    let Some(program) = compiled_text(folder.path(), "scoped.cc", SCOPED, &flags) else { return };
    let stacks = stacks_at(&program, &symbols(&program, "calls_"));
    let mut names = FrameNames::with(&stacks, Path::new("/nowhere"));
    let mut inner = |stack| names.stack(stack)[0].clone();
    let named: Vec<String> = (1..=5).map(|stack| inner(stack).function).collect();
    let wanted = [
        "a::get",
        "b::get",
        "(anonymous namespace)::Pool::get",
        "calls_4::{lambda at scoped.cc:10}",
        "calls_5::{lambda at scoped.cc:11}",
    ];
    assert_eq!(named, wanted);
    let identity = inner(2).identity.unwrap();
    assert_eq!((identity.path.as_str(), identity.line), ("b::get", 4));
    assert!(identity.file.ends_with("/scoped.cc"), "{identity:?}");
}

/// Clang writes no columns, and the two would be one.
#[test]
fn lambdas_of_one_line_have_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let text = "volatile int sink;\n#define QUIET __attribute__((noinline))\n\
                int main() { auto a = []() QUIET { sink = 1; }; auto b = []() QUIET { sink = 2; }; a(); b(); return 0; }\n";
    let Some(program) = compiled_text(folder.path(), "pair.cc", text, &["-O1", "-g", "-Wl,--build-id=sha1"]) else {
        return;
    };
    let stacks = stacks_at(&program, &symbols(&program, "UlvE"));
    let mut names = FrameNames::with(&stacks, Path::new("/nowhere"));
    let mut named = [1, 2].map(|stack| names.stack(stack).pop().unwrap().function);
    named.sort_unstable();
    assert_eq!(named, ["main::{lambda#1 at pair.cc:3}", "main::{lambda#2 at pair.cc:3}"]);
}

#[test]
fn functions_that_are_made_for_two_lambdas_are_two() {
    let folder = tempfile::tempdir().unwrap();
    let text = "volatile int sink;\ntemplate <class F> __attribute__((noinline)) void call(F f) { f(); }\n\
                int main() { call([] { sink = 1; }); call([] { sink = 2; }); return 0; }\n";
    let Some(program) = compiled_text(folder.path(), "made.cc", text, &["-O1", "-g", "-Wl,--build-id=sha1"]) else {
        return;
    };
    let stacks = stacks_at(&program, &symbols(&program, "4call"));
    let mut names = FrameNames::with(&stacks, Path::new("/nowhere"));
    let [one, other] = [1, 2].map(|stack| names.stack(stack).pop().unwrap());
    assert!(one.function.starts_with("call<") && other.function.starts_with("call<"), "{one:?} {other:?}");
    assert_ne!(one.identity, other.identity);
}

/// With lines, and with symbols only.
#[test]
fn functions_of_one_name_in_two_files_are_two() {
    for lines in ["-g", "-g0"] {
        let folder = tempfile::tempdir().unwrap();
        let source = |name: &str, sink: u32| {
            let path = folder.path().join(name);
            let text = format!(
                "extern volatile int sink; static __attribute__((noinline)) void make(void) {{ sink = {sink}; }}\n\
                 void calls_{sink}(void) {{ make(); }}\n"
            );
            std::fs::write(&path, text).unwrap();
            path
        };
        let (first, second, main) = (source("a.c", 1), source("b.c", 2), folder.path().join("main.c"));
        let text = "volatile int sink; void calls_1(void), calls_2(void); int main(void) { calls_1(); calls_2(); return 0; }\n";
        std::fs::write(&main, text).unwrap();
        let flags = ["-O1", lines, "-Wl,--build-id=sha1"];
        let built = compiled_to(&folder.path().join("two"), &[&first, &second, &main], &flags);
        let Some(program) = built else { return };
        let stacks = stacks_at(&program, &symbols(&program, "make"));
        let mut names = FrameNames::with(&stacks, Path::new("/nowhere"));
        let [one, other] = [1, 2].map(|stack| names.stack(stack)[0].clone());
        assert_eq!((one.function.as_str(), other.function.as_str()), ("make", "make"));
        assert_ne!(one.identity, other.identity, "{lines}");
        let file = |frame: &NamedFrame| frame.identity.as_ref().unwrap().file.rsplit('/').next().unwrap().to_string();
        assert_eq!((file(&one), file(&other)), ("a.c".into(), "b.c".into()), "{lines}");
    }
}

/// `tabled` has tables and `bare` has none: its stack ends in it.
#[test]
fn code_without_unwinding_tables_is_where_a_stack_ends() {
    let folder = tempfile::tempdir().unwrap();
    let compile = |name: &str, text: &str, flags: &[&str]| {
        compiled_text(folder.path(), &format!("{name}.c"), text, &[&["-c", "-O1"], flags].concat())
    };
    let bare = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"];
    let objects = [
        compile("bare", "int bare(int a) { return a + 1; }", &bare),
        compile(
            "tabled",
            "int bare(int); int tabled(int a) { return bare(a) + 2; }",
            &["-fasynchronous-unwind-tables"],
        ),
        compile("main", "int tabled(int); int main(int c, char **v) { (void)v; return tabled(c); }", &[]),
    ];
    let [Some(bare), Some(tabled), Some(main)] = objects else { return };
    let ends = folder.path().join("ends");
    let program = compiled_to(&ends, &[&main, &tabled, &bare], &["-Wl,--build-id=sha1"]).unwrap();
    let at = |name: &str| {
        let bytes = std::fs::read(&program).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        object.symbols().find(|symbol| symbol.name() == Ok(name)).expect("a symbol").address()
    };
    let stacks = stacks_at(&program, &[at("bare"), at("tabled")]);
    let mut names = FrameNames::with(&stacks, Path::new("/nowhere"));
    assert_eq!((names.ended(1), names.ended(2)), (1, 0));
    assert_eq!(names.stack(1)[0].function, "bare");
}

/// Like a Rust program with `debug = "line-tables-only"`: the debug entries have no scopes, but the symbol has.
#[test]
fn of_lines_alone_the_symbol_has_the_whole_name() {
    let folder = tempfile::tempdir().unwrap();
    let text = "mod a { #[inline(never)] pub fn make(n: usize) -> usize { std::hint::black_box(n) } }\n\
                fn main() { std::hint::black_box(a::make(std::env::args().count())); }\n";
    let flags = ["-O", "-Cdebuginfo=line-tables-only", "-Clink-arg=-Wl,--build-id=sha1"];
    let Some(program) = compiled_text(folder.path(), "lines.rs", text, &flags) else { return };
    let stacks = stacks_at(&program, &symbols(&program, "1a4make"));
    let frames = FrameNames::with(&stacks, Path::new("/nowhere")).stack(1);
    assert_eq!(frames.last().unwrap().function, "lines::a::make");
}

/// Each of these is a code of a C++ type as well, and a demangler makes `wchar_t`, `std` and `...` of them.
const SHORT: &str = "a b c d e f g h i j l m n s t v w x y z Pc St Sa Ss Di PKc Si So Dn xx Da";

/// In C and in C++, with debug information, with symbols only, and stripped.
#[test]
fn a_short_name_is_no_code_of_a_type() {
    let names: Vec<&str> = SHORT.split(' ').collect();
    let functions: String = names
        .iter()
        .enumerate()
        .map(|(at, name)| format!("STATIC __attribute__((noinline)) void {name}(int k) {{ sink = {at} + k; }}\n"))
        .collect();
    let calls: String = names.iter().map(|name| format!("{name}(sink); ")).collect();
    let text = format!("volatile int sink;\n{functions}int main(void) {{ {calls} return 0; }}\n");
    for (source, flags) in [
        ("one.c", ["-g0", "-DSTATIC="]),
        ("one.c", ["-g", "-DSTATIC="]),
        ("one.c", ["-g", "-DSTATIC=static"]),
        ("one.cc", ["-g0", "-DSTATIC=static"]),
        ("one.cc", ["-g", "-DSTATIC=static"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let all = [&flags[..], &["-O1", "-Wl,--build-id=sha1"]].concat();
        let Some(program) = compiled_text(folder.path(), source, &text, &all) else { return };
        // A static function of C++ is a mangled symbol: `_ZL1wi`.
        let at = |name: &str| {
            let mangled = format!("_ZL{}{name}i", name.len());
            let bytes = std::fs::read(&program).unwrap();
            let object = object::File::parse(&*bytes).unwrap();
            let is = |symbol: &str| symbol == name || symbol == mangled;
            object.symbols().find(|symbol| symbol.name().is_ok_and(is)).expect(name).address()
        };
        let addresses: Vec<u64> = names.iter().map(|name| at(name)).collect();
        let stacks = stacks_at(&program, &addresses);
        let mut found = FrameNames::with(&stacks, Path::new("/nowhere"));
        let is_mangled = source == "one.cc" && flags[0] == "-g0";
        for (number, name) in (1..).zip(&names) {
            let frame = found.stack(number).pop().unwrap();
            let wanted = if is_mangled { format!("{name}(int)") } else { name.to_string() };
            let source = if flags[0] == "-g" { NameSource::Debug } else { NameSource::Symbols };
            assert_eq!((frame.function, frame.source), (wanted, source), "{flags:?}");
        }
        let Ok(strip) = Command::new("strip").arg(&program).status() else { return skipped("no strip") };
        assert!(strip.success());
        let mut bare = FrameNames::with(&stacks, Path::new("/nowhere"));
        for (number, address) in (1..).zip(&addresses) {
            let frame = bare.stack(number).pop().unwrap();
            assert_eq!((frame.function.as_str(), frame.is_named()), (&*format!("one+{:#x}", address + 1), false));
        }
    }
}
