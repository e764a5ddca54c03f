//! Files of rows with bad lines: each bad line is named as FILE:LINE, and the other rows are reported.

use std::fs;

use tempfile::tempdir;

use super::*;

fn good() -> String {
    fs::read_to_string(golden("rows.jsonl")).unwrap()
}

#[test]
fn bad_lines_are_named_and_the_rest_is_reported() {
    let folder = tempdir().unwrap();
    let good = good();
    let lines: Vec<&str> = good.lines().collect();
    let later = lines[0].replacen("\"schema\":1", "\"schema\":2", 1);
    // A row of a later schema, with a shape that this version does not know.
    let alien = "{\"schema\":7,\"cells\":[]}";
    let text =
        [lines[0], "{\"schema\":1,\"cell\":", "", &later, alien, "no JSON", lines[1], &lines[2][..90]].join("\n");
    let path = folder.path().join("bad.jsonl");
    fs::write(&path, text).unwrap();
    let (rows, problems) = read(std::slice::from_ref(&path)).unwrap();
    assert_eq!((rows.len(), problems.len()), (2, 5), "{problems:?}");
    let wanted = [
        ":2: not a row: EOF",
        ":4: not a row: schema 2, and this command reads 1",
        ":5: not a row: schema 7, and this command reads 1",
        ":6: not a row: expected",
        ":8: the last line is torn, as a kill leaves it: EOF",
    ];
    for (problem, wanted) in problems.iter().zip(wanted) {
        assert!(problem.starts_with(&format!("{}{wanted}", path.display())), "{problem}");
    }
    // The problems are shown next to the figures. CSV has no place for them.
    let found = Findings { problems: problems.clone(), ..findings(&rows) };
    for format in ["table", "markdown", "html"] {
        let text = (find(format).unwrap().render)(&found, &LOOK);
        let named = wanted.iter().filter(|wanted| text.contains(*wanted)).count();
        assert_eq!(named, 5, "{format}: {text}");
    }
}

#[test]
fn a_whole_last_line_without_its_newline_counts() {
    let folder = tempdir().unwrap();
    let text = good();
    let path = folder.path().join("a.jsonl");
    fs::write(&path, text.trim_end()).unwrap();
    let (rows, problems) = read(&[path]).unwrap();
    assert_eq!((rows.len(), problems), (text.lines().count(), Vec::new()));
}

#[test]
fn several_files_are_read_as_one_in_any_order() {
    let folder = tempdir().unwrap();
    let good = good();
    let half = good.match_indices('\n').nth(good.lines().count() / 2).unwrap().0 + 1;
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (whole, a, b) = (file("whole.jsonl", &good), file("a.jsonl", &good[..half]), file("b.jsonl", &good[half..]));
    let table = |files: &[PathBuf]| report(&read(files).unwrap().0, "table");
    assert_eq!(table(&[whole]), table(&[b, a]));
    // A folder means the rows in it.
    fs::create_dir(folder.path().join("study")).unwrap();
    file("study/samples.jsonl", &good);
    assert_eq!(read(&[folder.path().join("study")]).unwrap().0.len(), good.lines().count());
}
