//! What the image is made of. In: the repository's files. Out: whether they agree.

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
