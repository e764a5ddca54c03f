use std::path::Path;
use std::process::Command;

use allocanary_testing::programs::compiled;
use allocanary_testing::skipped::skipped;
use allocanary_trace::stacks::Node;
use object::{Object, ObjectSymbol};

use super::*;

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
    let module = Module {
        start: BIAS,
        end: BIAS + (1 << 20),
        bias: BIAS,
        path: built.program.display().to_string(),
        build_id: built.build_id.clone(),
    };
    let nodes = vec![Node::default(), Node { parent: 0, pc: BIAS + built.outer + 1 }];
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

fn functions(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.function.as_str()).collect()
}

#[test]
fn a_frame_has_its_inlined_functions_and_lines() {
    let Some(built) = built() else { return };
    let stacks = stacks(&built);
    let frames = Names::with(&stacks, Path::new("/nowhere")).stack(1);
    assert_eq!(functions(&frames), ["inlined", "outer"]);
    assert!(frames[0].file.ends_with("names.c") && frames[0].line == 2, "{frames:?}");
    assert_eq!((frames[1].line, frames[1].module.as_str(), frames[1].is_named), (5, "names", true));
}

/// A call that is the last instruction of a function returns to the next function.
#[test]
fn a_return_to_the_first_byte_of_a_function_is_of_the_one_before() {
    let Some(built) = built() else { return };
    let mut stacks = stacks(&built);
    stacks.nodes[1].pc -= 1;
    let frames = Names::with(&stacks, Path::new("/nowhere")).stack(1);
    assert!(frames.iter().all(|frame| frame.function != "outer"), "{frames:?}");
}

#[test]
fn a_stripped_file_has_offsets_and_its_debug_file_has_the_names() {
    let Some(built) = built() else { return };
    let debug = built.folder.path().join("debug");
    let place = file::debug_file(&debug, &built.build_id).unwrap();
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::copy(&built.program, &place).unwrap();
    let Some(()) = stripped(&built) else { return };
    let stacks = stacks(&built);
    let frames = Names::with(&stacks, Path::new("/nowhere")).stack(1);
    assert_eq!(functions(&frames), [format!("names+{:#x}", built.outer + 1)]);
    assert!(!frames[0].is_named);
    let mut names = Names::with(&stacks, &debug);
    assert_eq!(functions(&names.stack(1)), ["inlined", "outer"]);
    assert!(names.notes().is_empty(), "{:?}", names.notes());
    // A file of another build in that place is refused.
    let mut other = stacks.clone();
    other.modules[0].build_id[0] ^= 1;
    let wrong = file::debug_file(&debug, &other.modules[0].build_id).unwrap();
    std::fs::create_dir_all(wrong.parent().unwrap()).unwrap();
    std::fs::copy(&place, wrong).unwrap();
    assert!(!Names::with(&other, &debug).stack(1)[0].is_named);
}

#[test]
fn a_program_that_was_replaced_is_told_and_not_used() {
    let Some(built) = built() else { return };
    let mut stacks = stacks(&built);
    stacks.modules[0].build_id[0] ^= 1;
    let mut names = Names::with(&stacks, Path::new("/nowhere"));
    assert!(!names.stack(1)[0].is_named);
    let [note] = names.notes() else { panic!("{:?}", names.notes()) };
    assert!(note.contains("is not the file that was recorded: wanted build-id") && note.contains("not used"), "{note}");
    stacks.modules[0].path = "/nowhere/names (deleted)".into();
    let mut names = Names::with(&stacks, Path::new("/nowhere"));
    assert_eq!(functions(&names.stack(1)), [format!("names+{:#x}", built.outer + 1)]);
    assert!(names.notes()[0].starts_with("/nowhere/names: "), "{:?}", names.notes());
    stacks.modules[0].path = "/dev/zero".into();
    let mut names = Names::with(&stacks, Path::new("/nowhere"));
    names.stack(1);
    assert!(names.notes()[0].contains("no regular file"), "{:?}", names.notes());
}

#[test]
fn the_allocators_own_frames_are_left_out_for_other_tools() {
    let node = |parent, pc| Node { parent, pc };
    let module = |path: &str, start| Module { start, end: start + 100, path: path.into(), ..Module::default() };
    let stacks = Stacks {
        nodes: vec![node(0, 0), node(0, 150), node(1, 250), node(2, 350), node(0, 351)],
        modules: vec![module("app", 100), module("libc.so.6", 200), module("libjemalloc.so.2", 300)],
    };
    let mut names = Names::of(&stacks);
    assert_eq!(names.callers(3), [250, 150], "libc is a caller like others here");
    assert_eq!(names.callers(4), [351], "there is no caller");
}

#[test]
fn an_address_without_a_module_is_itself() {
    let stacks = Stacks { nodes: vec![Node::default(), Node { parent: 0, pc: 0x1234 }], modules: Vec::new() };
    assert_eq!(functions(&Names::of(&stacks).stack(1)), ["0x1234"]);
}
