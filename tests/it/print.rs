//! The printed page: a real browser prints it, and the text of each sheet is read back.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use allocanary_testing::skipped::skipped;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{allocanary, samples, words};

/// The default study's candidates and number of columns, with cells of some milliseconds.
const STUDY: &str = "study --threads 1,2,3,4 --repeats 5 --out-dir out \
                     --workloads server:live=256KiB,requests=64,bursts=1,burst=64KiB,settle=1ms";

/// The name of an installed program of this list.
fn found(names: &[&'static str]) -> Option<&'static str> {
    let is_there =
        |name: &&str| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    names.iter().copied().find(is_there)
}

/// The text of each sheet, in lines as printed.
fn sheets(browser: &str, folder: &Path, page: &str) -> Vec<String> {
    let pdf = folder.join("page.pdf");
    let printed = Command::new(browser)
        .args(words("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"))
        .args(words("--disable-background-networking --disable-component-update --no-pdf-header-footer"))
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--print-to-pdf={}", pdf.display()))
        .arg(format!("file://{}", folder.join(page).display()))
        .finish()
        .unwrap();
    assert!(pdf.exists(), "{printed:?}");
    let read = Command::new("pdftotext").arg("-layout").arg(&pdf).arg("-").finish().unwrap();
    // A form feed ends each sheet.
    String::from_utf8(read.stdout).unwrap().split_terminator('\x0c').map(String::from).collect()
}

/// The text of some HTML, without its tags.
fn text(html: &str) -> String {
    html.split('<').enumerate().map(|(at, part)| if at == 0 { part } else { part.split_once('>').unwrap().1 }).collect()
}

/// A table's caption, and the first cell of each of its rows.
fn tables(html: &str) -> Vec<(String, Vec<String>)> {
    let between = |html: &str, begin: &str, end: &str| -> Vec<String> {
        html.split(begin).skip(1).map(|rest| text(rest.split_once(end).unwrap().0)).collect()
    };
    let tables = html.split("<table>").skip(1).map(|rest| rest.split_once("</table>").unwrap().0);
    let table = |html| {
        (between(html, "<caption>", "</caption>").concat(), between(html, "class=\"name\" scope=\"row\">", "</th>"))
    };
    tables.map(table).collect()
}

#[test]
fn a_study_of_the_default_size_prints_with_whole_tables() {
    let Some(browser) = found(&["chromium", "chromium-browser", "google-chrome"]) else {
        return skipped("it needs chromium");
    };
    if found(&["pdftotext"]).is_none() {
        return skipped("it needs pdftotext");
    }
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let ran = allocanary(folder, words(STUDY));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // This machine's other work must not add warnings to the page.
    let quiet = samples(&folder.join("out")).into_iter().map(|mut row| {
        row.load = None;
        serde_json::to_string(&row).unwrap() + "\n"
    });
    fs::write(folder.join("quiet.jsonl"), quiet.collect::<String>()).unwrap();
    let ran = allocanary(folder, words("report quiet.jsonl --format html --output page.html"));
    assert_eq!(ran.code, Some(0), "{ran:?}");

    let sheets = sheets(browser, folder, "page.html");
    let tables = tables(&fs::read_to_string(folder.join("page.html")).unwrap());
    let captions: Vec<&str> = tables.iter().map(|(caption, _)| caption.as_str()).collect();
    assert!(captions.len() == 4 && captions[0] == "Resident memory when idle", "{captions:?}");
    for (caption, names) in &tables {
        assert!(names.len() >= 6, "{caption}: {names:?}");
        // From the caption to the next one, or to the end of the sheet.
        let is_caption = |line: &&str| captions.contains(&line.trim());
        let sheet = sheets.iter().find(|sheet| sheet.lines().any(|line| line.trim() == caption));
        let lines = sheet.unwrap_or_else(|| panic!("{caption} is on no sheet: {sheets:#?}")).lines();
        let below = lines.skip_while(|line| line.trim() != caption).skip(1).take_while(|line| !is_caption(line));
        let firsts: Vec<&str> = below.filter_map(|line| line.split_whitespace().next()).collect();
        for name in names {
            assert!(firsts.contains(&name.as_str()), "{caption} is split before {name}: {sheets:#?}");
        }
    }
}
