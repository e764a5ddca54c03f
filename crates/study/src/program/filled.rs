//! `{port}` and `{dir}` in a program's texts. In: texts, a port, a folder. Out: the same texts with both filled in.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;

use allocanary_rows::program::Program;

/// A port that is free now.
pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0");
    listener.and_then(|listener| listener.local_addr()).map_or(0, |address| address.port())
}

pub(super) fn filled(text: &str, port: u16, folder: &Path) -> String {
    text.replace("{port}", &port.to_string()).replace("{dir}", &folder.display().to_string())
}

pub(super) fn filled_all(all: BTreeMap<String, String>, fill: impl Fn(&str) -> String) -> BTreeMap<String, String> {
    let used = |value: &String| value.contains("{port}") || value.contains("{dir}");
    all.into_iter().map(|(name, value)| (name, if used(&value) { fill(&value) } else { value })).collect()
}

pub(super) fn with(program: &Program, fill: impl Fn(&str) -> String) -> Program {
    let some = |text: &Option<String>| text.as_deref().map(&fill);
    Program {
        command: program.command.iter().map(|word| fill(word)).collect(),
        stdin: some(&program.stdin),
        check: some(&program.check),
        before: some(&program.before),
        after: some(&program.after),
        ready: some(&program.ready),
        load: some(&program.load),
        ..program.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_and_a_folder_are_filled_in() {
        assert_eq!(
            filled("x --port {port} --dir {dir}/a {other}", 7, Path::new("/d")),
            "x --port 7 --dir /d/a {other}"
        );
        assert!(free_port() > 0);
    }
}
