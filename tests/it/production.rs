//! From an answer to production: the files of `--write-for`, each tried in its place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use allocanary_testing::skipped::skipped;
use serde_json::Value;
use tempfile::TempDir;

use super::bounded::Bounded;
use super::support::{Ran, allocanary, copy_program, script, words};
use super::tune::fake;

/// Fake cells of which `jemalloc:narenas=1` surely has the least memory.
fn jemalloc() -> TempDir {
    let folder = fake("[ \"$FAKE_NARENAS\" = 1 ] && rss=20");
    let cell = fs::read_to_string(folder.path().join("cell-system")).unwrap();
    let cell = cell.replace(r#""allocator":"system""#, r#""allocator":"jemalloc""#).replace("arena_max", "narenas");
    script(&folder.path().join("cell-jemalloc"), &cell);
    folder
}

const STUDY: &str = "study --cells . --workloads work --threads 4 --repeats 6 --out-dir out --candidates";

fn study(folder: &TempDir, candidates: &str, place: &str) -> Ran {
    let ran = allocanary(folder.path(), words(&format!("{STUDY} {candidates} --write-for {place}")));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

fn is_here(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The words after a word at the beginning of a line: those of `ENV` in a Dockerfile.
fn after<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).collect()
}

#[test]
fn a_layer_brings_a_stripped_library_that_takes_effect() {
    let folder = jemalloc();
    let ran = study(&folder, "jemalloc jemalloc:narenas=1", "docker");
    let out = folder.path().join("out/docker");
    assert!(ran.err.contains("1. docker build --build-arg IMAGE=YOUR_IMAGE"), "{}", ran.err);
    let library = out.join("preload-jemalloc");
    assert_eq!(library.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    let size = |path: &Path| path.metadata().unwrap().len();
    if !is_here("strip") {
        return skipped("it needs strip");
    }
    assert!(size(&library) * 3 < size(Path::new(env!("CARGO_BIN_EXE_preload-jemalloc"))), "{} bytes", size(&library));
    if !Command::new("chroot").args(["/", "true"]).finish().is_ok_and(|ran| ran.status.success()) {
        return skipped("it needs root, for chroot");
    }
    // The steps of the Dockerfile, by hand: COPY and ENV, in the smallest root folder with glibc.
    let text = fs::read_to_string(out.join("Dockerfile")).unwrap();
    let image = folder.path().join("image");
    for program in ["/bin/true", "/usr/bin/env"] {
        let listed = Command::new("ldd").arg(program).finish().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let libraries = listed.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
        for file in libraries.chain([PathBuf::from(program)]).chain(listed_by_the_library(&library)) {
            let to = image.join(file.strip_prefix("/").unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            copy_program(&file.canonicalize().unwrap(), &to);
        }
    }
    for copied in after(&text, "COPY") {
        let (from, to) = copied.split_once(' ').unwrap();
        let to = image.join(to.strip_prefix('/').unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        copy_program(&out.join(from), &to);
    }
    let run = |variables: &[String]| {
        let ran =
            Command::new("chroot").arg(&image).args(["/usr/bin/env", "-i"]).args(variables).arg("/bin/true").finish();
        String::from_utf8_lossy(&ran.unwrap().stderr).into_owned()
    };
    // jemalloc prints its own settings at the program's end.
    let variables: Vec<String> =
        after(&text, "ENV").iter().map(|line| line.replace("narenas:1", "narenas:1,stats_print:true")).collect();
    assert_eq!(variables.len(), 2, "{text}");
    let said = run(&variables);
    assert!(said.contains("opt.narenas: 1"), "{said}\n{text}");
    assert_eq!(run(&variables[1..]), "", "without the library nothing is said");
}

/// What the preload itself is linked with.
fn listed_by_the_library(library: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(library).finish().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    listed.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// A Deployment with a container that has a variable and a volume of its own.
const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"service"},"spec":{
"selector":{"matchLabels":{"app":"service"}},"template":{"metadata":{"labels":{"app":"service"}},"spec":{
"containers":[{"name":"service","image":"service:1","env":[{"name":"LOG","value":"debug"}],
"volumeMounts":[{"name":"data","mountPath":"/data"}]}],"volumes":[{"name":"data","emptyDir":{}}]}}}}"#;

/// The Pod's specification after the patch that a study wrote.
fn patched(folder: &TempDir) -> Value {
    let at = |name: &str| folder.path().join(name);
    fs::write(at("deployment.json"), DEPLOYMENT).unwrap();
    let patch = fs::read_to_string(at("out/kubernetes/patch.yaml")).unwrap().replace("YOUR_CONTAINER", "service");
    fs::write(at("patch.yaml"), &patch).unwrap();
    let ran = Command::new("kubectl")
        .args(words("patch --local --type strategic -o json -f deployment.json --patch-file patch.yaml"))
        .current_dir(folder.path())
        .finish()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}\n{patch}");
    let all: Value = serde_json::from_slice(&ran.stdout).unwrap();
    all["spec"]["template"]["spec"].clone()
}

#[test]
fn a_patch_adds_the_library_and_keeps_what_a_deployment_has() {
    if Command::new("kubectl").arg("help").finish().is_err() {
        return skipped("it needs kubectl");
    }
    let folder = jemalloc();
    study(&folder, "jemalloc jemalloc:narenas=1", "kubernetes");
    let pod = patched(&folder);
    let container = &pod["containers"][0];
    let find =
        |list: &Value, name: &str| list.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1, "{pod}");
    assert_eq!(container["image"], "service:1");
    assert_eq!(find(&container["env"], "LOG")["value"], "debug");
    assert_eq!(find(&container["env"], "_RJEM_MALLOC_CONF")["value"], "narenas:1");
    assert_eq!(find(&container["volumeMounts"], "data")["mountPath"], "/data");
    // The library is where the init container leaves it.
    let init = find(&pod["initContainers"], "allocanary");
    let left = init["command"][2].as_str().unwrap();
    assert_eq!(find(&container["env"], "LD_PRELOAD")["value"], format!("{left}preload-jemalloc"));
    let mounts = [&init["volumeMounts"], &container["volumeMounts"]].map(|mounts| find(mounts, "allocanary"));
    assert!(mounts.iter().all(|mount| left.starts_with(mount["mountPath"].as_str().unwrap())), "{pod}");
    assert_eq!(find(&pod["volumes"], "allocanary")["emptyDir"], serde_json::json!({}));
    // The image of the init container has it where the command takes it from.
    let image = fs::read_to_string(folder.path().join("out/kubernetes/Dockerfile")).unwrap();
    assert_eq!(after(&image, "COPY"), [format!("preload-jemalloc {}", init["command"][1].as_str().unwrap())]);
    assert!(folder.path().join("out/kubernetes/preload-jemalloc").is_file());
}

#[test]
fn settings_of_what_a_program_has_need_no_library() {
    if Command::new("kubectl").arg("help").finish().is_err() {
        return skipped("it needs kubectl");
    }
    let folder = fake("[ \"$FAKE_ARENA_MAX\" = 1 ] && rss=20");
    let ran = study(&folder, "system system:arena_max=1", "kubernetes");
    let pod = patched(&folder);
    assert!(pod.get("initContainers").is_none() && !ran.err.contains("the library"), "{pod}");
    assert_eq!(pod["containers"][0]["env"][0]["value"], "glibc.malloc.arena_max=1", "{pod}");
}

#[test]
fn what_is_kept_has_no_files_and_rows_alone_have_no_folder() {
    let folder = fake("");
    let ran = study(&folder, "system system:arena_max=1", "systemd");
    assert!(ran.err.contains("--write-for systemd: nothing is to be changed"), "{ran:?}");
    assert!(!folder.path().join("out/systemd").exists());
    let line = "study --cells . --workloads work --threads 4 --candidates system --output rows.jsonl --write-for rust";
    let ran = allocanary(folder.path(), words(line));
    assert!(ran.code == Some(2) && ran.err.contains("--write-for rust: its files need a folder"), "{ran:?}");
    assert!(!folder.path().join("rows.jsonl").exists(), "it is refused before anything is measured");
}
