//! Java, with the virtual machine HotSpot: options in JAVA_TOOL_OPTIONS. In: the launcher `java`. Out: its version, and the settings that
//! it lacks.
//!
//! A HotSpot that does not know an option does not start, and says so. An option on the command line overrides these.

use std::fs;
use std::path::Path;

use super::knob::{Also, Knob, Usual, Way};
use super::runtime::{RuntimeKind, Traits, never};
use allocanary_facts::setting::SettingKind;

const OPTIONS: &str = "JAVA_TOOL_OPTIONS";
/// A flag of the virtual machine itself. The library of an old virtual machine does not contain this name.
const TRIM: &str = "TrimNativeHeapInterval";

/// Java.
pub const JAVA: RuntimeKind = RuntimeKind {
    name: "Java",
    knobs: &[
        Knob::new(
            "cpus",
            SettingKind::Number { min: 1, max: 4096 },
            "Java: processors that the virtual machine counts; threads of its collector and compiler follow",
            Way::Option(OPTIONS, "-XX:ActiveProcessorCount="),
            Usual::Cores,
            Also::Nothing,
        ),
        Knob::new(
            "trim",
            SettingKind::Number { min: 10, max: i32::MAX as i64 },
            "Java: milliseconds between two calls of malloc_trim, which give free memory of C's heap back",
            Way::Option(OPTIONS, "-XX:TrimNativeHeapInterval="),
            Usual::Unknown,
            Also::Nothing,
        ),
        Knob::new(
            "xss",
            // The virtual machine accepts at least 136 KiB on x86-64, and more elsewhere.
            SettingKind::Size { min: 144 << 10, max: 1 << 30 },
            "Java: the stack of a thread, in bytes",
            Way::Option(OPTIONS, "-Xss"),
            Usual::Unknown,
            Also::Nothing,
        ),
    ],
    tried: &[],
    recognise,
    ignores: never,
    is_changeable: false,
};

fn recognise(file: &Path) -> Option<Traits> {
    if file.file_name()? != "java" {
        return None;
    }
    let home = file.parent()?.parent()?;
    let release = fs::read_to_string(home.join("release")).ok()?;
    let version = version(&release)?;
    let library = [home.join("lib/server/libjvm.so"), home.join("lib/client/libjvm.so")];
    let library = library.iter().find_map(|path| fs::read(path).ok());
    let lacks = library.is_some_and(|bytes| !bytes.windows(TRIM.len()).any(|word| word == TRIM.as_bytes()));
    let lacks =
        lacks.then(|| ("trim", format!("its libjvm.so does not have {TRIM}: leave it out, or take a newer one")));
    Some(Traits { version, lacks: lacks.into_iter().collect(), globals: None })
}

/// The version in the text of the file `release`.
fn version(release: &str) -> Option<String> {
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    Some(line.trim_matches('"').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_says_its_version_and_its_library_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("bin")).unwrap();
        fs::create_dir_all(at("lib/server")).unwrap();
        fs::write(at("bin/java"), "").unwrap();
        assert_eq!(recognise(&at("bin/java")), None, "another program of that name");
        fs::write(at("release"), "IMPLEMENTOR=\"Debian\"\nJAVA_VERSION=\"17.0.15\"\nLIBC=\"gnu\"\n").unwrap();
        fs::write(at("lib/server/libjvm.so"), "\0TrimNativeHeapInterval\0").unwrap();
        let found = recognise(&at("bin/java")).unwrap();
        assert_eq!((found.version.as_str(), found.lacks), ("17.0.15", vec![]));
        fs::write(at("lib/server/libjvm.so"), "\0ActiveProcessorCount\0").unwrap();
        let found = recognise(&at("bin/java")).unwrap();
        assert!(found.lacks[0].0 == "trim" && found.lacks[0].1.contains("does not have TrimNative"), "{found:?}");
    }
}
