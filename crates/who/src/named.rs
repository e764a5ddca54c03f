//! Writes how much of the memory was allocated by functions with a name, and what would name the rest.

use std::collections::BTreeMap;

use allocanary_names::NamedFrame;

/// A file is not mentioned if its nameless functions have a smaller share of the bytes.
const LEAST: f64 = 0.01;

/// The sentences; `None` if no function of a file lacks a name.
pub(crate) fn note<'a>(sites: impl Iterator<Item = (&'a NamedFrame, f64)>) -> Option<String> {
    let (mut all, mut named) = (0.0, 0.0);
    let mut of_file: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (frame, bytes) in sites {
        all += bytes;
        if frame.is_named() {
            named += bytes;
        } else if !frame.build_id.is_empty() {
            *of_file.entry((&frame.module, &frame.build_id)).or_default() += bytes;
        }
    }
    let ((module, build_id), bytes) = of_file.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let percent = |part: f64| 100.0 * part / all;
    (bytes > LEAST * all).then(|| {
        format!(
            "Functions with a name allocated {:.0} % of the bytes. {:.0} % are of functions of {module} that have none on this host. The debug \
             symbols of its build-id have them: install their package, or run `debuginfod-find debuginfo {build_id}` once.",
            percent(named),
            percent(bytes)
        )
    })
}

#[cfg(test)]
mod tests {
    use allocanary_names::NameSource;

    use super::*;

    #[test]
    fn the_share_without_a_name_is_told_with_the_file_that_has_most_of_it() {
        let frame = |module: &str, source| NamedFrame {
            module: module.into(),
            build_id: format!("id-of-{module}").into(),
            source,
            ..NamedFrame::default()
        };
        let (app, lib, other) =
            (frame("app", NameSource::Debug), frame("lib.so", NameSource::None), frame("other.so", NameSource::None));
        let made = NamedFrame::default();
        let said = note([(&app, 30.0), (&lib, 40.0), (&other, 20.0), (&made, 10.0)].into_iter()).unwrap();
        assert!(
            said.starts_with("Functions with a name allocated 30 % of the bytes. 40 % are of functions of lib.so"),
            "{said}"
        );
        assert!(said.contains("`debuginfod-find debuginfo id-of-lib.so`"), "{said}");
        // What is in no file has no debug symbols, and little is not worth a sentence.
        assert_eq!(note([(&app, 99.5), (&lib, 0.5)].into_iter()), None);
        assert_eq!(note([(&app, 1.0), (&made, 9.0)].into_iter()), None);
        assert_eq!(note([].into_iter()), None);
    }
}
