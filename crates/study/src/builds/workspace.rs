//! A cargo workspace that has one crate in it. In: a release and a folder. Out: the files that cargo needs.

use std::fs;
use std::path::Path;

use allocanary_sys::private;

use crate::builds::error::{Result, file};
use crate::builds::releases::Release;

/// Writes the workspace. With `vendored`, cargo takes crates from that folder and nowhere else.
pub fn write(folder: &Path, release: &Release, vendored: Option<&Path>) -> Result<()> {
    let source = folder.join("src");
    let configuration = folder.join(".cargo");
    for path in [&source, &configuration] {
        fs::create_dir_all(path).map_err(file(path, "making the folder"))?;
    }
    let library = source.join("lib.rs");
    private::replace(&library, b"").map_err(file(&library, "writing it"))?;
    let manifest_path = folder.join("Cargo.toml");
    private::replace(&manifest_path, manifest(release).as_bytes()).map_err(file(&manifest_path, "writing it"))?;
    let path = configuration.join("config.toml");
    private::replace(&path, config(release, vendored).as_bytes()).map(drop).map_err(file(&path, "writing it"))
}

fn manifest(release: &Release) -> String {
    let Release { package, package_version, features, .. } = release;
    let features: Vec<String> = features.iter().map(|feature| format!("\"{feature}\"")).collect();
    format!(
        "[package]\nname = \"built\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n\
         {package} = {{ version = \"={package_version}\", default-features = false, features = [{}] }}\n",
        features.join(", ")
    )
}

/// The flags of the C compiler, and the folder with crates.
fn config(release: &Release, vendored: Option<&Path>) -> String {
    let mut text = String::new();
    if !release.cflags.is_empty() {
        text += &format!("[env]\nCFLAGS = {{ value = \"{}\", force = true }}\n", release.cflags);
    }
    if let Some(folder) = vendored {
        // Quoted and escaped, because a path can have a quote or a backslash.
        let folder = serde_json::Value::from(folder.to_string_lossy());
        text += &format!("[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = {folder}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builds::releases::find;

    #[test]
    fn a_manifest_asks_for_one_version_and_its_features() {
        let release = find("mimalloc@2.2").unwrap();
        let text = manifest(&release);
        let line = r#"libmimalloc-sys = { version = "=0.1.43", default-features = false, features = ["extended", "override"] }"#;
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_vendored_folder_takes_the_place_of_the_registry() {
        let text = config(&find("rpmalloc").unwrap(), Some(Path::new("/a \"b\"/c")));
        assert!(text.contains("CFLAGS = { value = \"-DENABLE_OVERRIDE=1\", force = true }"), "{text}");
        assert!(text.contains(r#"directory = "/a \"b\"/c""#), "{text}");
        assert_eq!(config(&find("jemalloc").unwrap(), None), "");
    }
}
