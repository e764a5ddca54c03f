//! The parts of the image. In: the repository's files. Out: whether they agree.

use std::fs;
use std::path::Path;

#[test]
fn what_git_ignores_is_not_sent_to_docker() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docker = fs::read_to_string(root.join(".dockerignore")).unwrap_or_default();
    for folder in ["", "/c_glue"] {
        let ignored = fs::read_to_string(root.join(format!(".{folder}/.gitignore"))).unwrap();
        for path in ignored.lines().map(|path| format!("{folder}{path}")) {
            assert!(docker.lines().any(|line| line == path), "{path} is not in .dockerignore");
        }
    }
}

/// Cargo reports no error if the profile names a package that does not exist. The renamed package would then be built
/// for size like the rest, and scrapes would be slow.
#[test]
fn the_image_s_profile_is_the_one_that_the_dockerfile_names_and_its_packages_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let (docker, manifest, lock) =
        (read("examples/kube_canary/deploy/Dockerfile"), read("Cargo.toml"), read("Cargo.lock"));
    let words: Vec<&str> = docker.split_whitespace().collect();
    let profile = words.windows(2).find(|pair| pair[0] == "--profile").expect("the Dockerfile names a profile")[1];
    assert!(manifest.contains(&format!("\n[profile.{profile}]\n")), "{profile} is not in Cargo.toml");
    assert!(docker.contains(&format!("/{profile}/kube_canary\"")), "the program is where that profile puts it");
    let start = format!("[profile.{profile}.package.");
    let packages: Vec<&str> =
        manifest.lines().filter_map(|line| line.strip_prefix(&*start)?.strip_suffix(']')).collect();
    assert!(!packages.is_empty());
    for package in packages {
        assert!(lock.contains(&format!("\nname = \"{package}\"\n")), "{package} is not in Cargo.lock");
    }
}
