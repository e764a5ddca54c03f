use proptest::prelude::*;

use super::*;

#[test]
fn a_line_names_its_addresses() {
    let text = "7ff0b28b6000 b py::_find_and_load:<frozen importlib._bootstrap>\n\
                7ff0b28b600b b py::load:/srv/my app.py\n\
                0x00007ff0b28b7000 0x20 java.lang.String::hashCode ()\r\n\
                7ff0b28b8000\t10\tLazyCompile:*add /srv/app.js:3:14";
    let map = PerfMap::read(text.as_bytes());
    let frame = |address| map.find(address).map(frame);
    assert_eq!(frame(0x7ff0_b28b_5fff), None);
    let load = NamedFrame {
        function: "load:/srv/my app.py".into(),
        source: NameSource::Map,
        file: "/srv/my app.py".into(),
        module: "[python]".into(),
        ..NamedFrame::default()
    };
    assert_eq!((frame(0x7ff0_b28b_600b), frame(0x7ff0_b28b_6015)), (Some(load.clone()), Some(load)));
    assert_eq!(frame(0x7ff0_b28b_6016), None);
    assert_eq!(frame(0x7ff0_b28b_600a).unwrap().file, "<frozen importlib._bootstrap>");
    let java = frame(0x7ff0_b28b_701f).unwrap();
    assert_eq!((java.function.as_str(), java.module.as_str()), ("java.lang.String::hashCode ()", "[jit]"));
    assert_eq!(frame(0x7ff0_b28b_8000).unwrap().function, "LazyCompile:*add /srv/app.js:3:14");
    assert_eq!(super::frame("py::nothing").file, "");
}

#[test]
fn a_line_that_is_none_is_left_out() {
    for line in [
        "",
        "1000",
        "1000 10",
        "1000 10 ",
        "1000 0 empty",
        "ffffffffffffffff 2 over the end",
        "1000 -1 name",
        "+1000 10 name",
        "1000 10000000000000000 name",
        "x 10 name",
    ] {
        let map = PerfMap::read(format!("2000 8 before\n{line}\n2010 8 behind\n").as_bytes());
        assert_eq!(
            (map.ranges.len(), map.find(0x2000), map.find(0x2010)),
            (2, Some("before"), Some("behind")),
            "{line}"
        );
    }
    let map = PerfMap::read(b"1000 10 caf\xE9\n\xFF\xFE\n1010 10 next\n");
    assert_eq!((map.find(0x1000), map.find(0x1010)), (Some("caf\u{fffd}"), Some("next")));
}

#[test]
fn of_lines_that_overlap_the_later_one_counts() {
    let map = PerfMap::read(b"1000 100 outer\n1010 10 inner\n10f0 20 end\n0ff0 20 begin\n");
    let found: Vec<_> = [0xff0, 0x100f, 0x1010, 0x101f, 0x1020, 0x10ef, 0x10f0, 0x110f, 0x1110]
        .map(|address| map.find(address).unwrap_or("-"))
        .into();
    assert_eq!(found, ["begin", "begin", "inner", "inner", "outer", "outer", "end", "end", "-"]);
}

#[test]
fn the_map_of_a_trace_lies_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    assert_eq!(beside(&trace), folder.path().join("a.trace.perfmap"));
    assert!(PerfMap::of(&trace).unwrap().is_none());
    std::fs::write(beside(&trace), "1000 8 py::f:/a.py\n").unwrap();
    assert_eq!(PerfMap::of(&trace).unwrap().unwrap().find(0x1007), Some("py::f:/a.py"));
    // A sparse file: nothing is written.
    std::fs::File::create(beside(&trace)).unwrap().set_len(LONGEST + 1).unwrap();
    let error = PerfMap::of(&trace).err().unwrap();
    assert!(
        error.contains("a.trace.perfmap: wanted a regular file of at most 67108864 bytes, found one of"),
        "{error}"
    );
    std::fs::remove_file(beside(&trace)).unwrap();
    std::fs::create_dir(beside(&trace)).unwrap();
    assert!(PerfMap::of(&trace).err().unwrap().contains("found none"));
}

proptest! {
    /// Each address has the name of the last line whose range contains it.
    #[test]
    fn fuzz_ranges(lines in proptest::collection::vec((0_u64..60, 0_u64..30), 0..40)) {
        let text: String =
            lines.iter().enumerate().map(|(at, (first, length))| format!("{first:x} {length:x} line {at}\n")).collect();
        let map = PerfMap::read(text.as_bytes());
        for address in 0..100 {
            let last = lines.iter().rposition(|(first, length)| (*first..first + length).contains(&address));
            prop_assert_eq!(map.find(address).map(String::from), last.map(|at| format!("line {at}")));
        }
    }

    /// No bytes panic.
    #[test]
    fn fuzz_any_bytes(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b' '), Just(b'\n'), b'0'..=b'f'], 0..300)) {
        let map = PerfMap::read(&bytes);
        for address in [0, 1, 0x10, 0xff, u64::MAX] {
            let _ = map.find(address);
        }
    }
}
