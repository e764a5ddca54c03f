//! Text from rows, studies and paths never controls the terminal, and breaks no table, page or file.

use std::fs;
use std::path::Path;

use allocanary_measure::rows::written;
use allocanary_rows::job::Job;
use allocanary_rows::sample::{Failure, FailureKind, Sample};
use allocanary_text::outside::steers;
use tempfile::{TempDir, tempdir};

use super::support::{Ran, TINY, allocanary, golden_path, samples, words};

/// An escape sequence that clears the screen, one without ESC, a carriage return, marks that turn text around, an
/// invisible character, and the characters that tables, pages and files are made of.
const WILD: &str = "\x1b[2J\u{9b}31m\r\u{202e}\u{2066}\u{200b}\n\t\x07\"',;|`<b>&lt;\\";

/// The golden rows, with `WILD` in each of their texts.
fn wild() -> Vec<Sample> {
    let mut rows = samples(&golden_path("rows.jsonl"));
    for row in &mut rows {
        let cell = &mut row.cell;
        cell.candidate = format!("{}{WILD}", cell.candidate).as_str().into();
        cell.allocator.push_str(WILD);
        cell.job = Job::workload(&format!("{}{WILD}", cell.job.name()), cell.job.threads().unwrap());
        cell.study = Some(format!("study{WILD}"));
        let (build, host) = (&mut row.provenance.build, &mut row.provenance.host);
        for text in [&mut build.package, &mut build.version, &mut build.revision, &mut build.rustc] {
            text.push_str(WILD);
        }
        for text in [&mut host.name, &mut host.cpu, &mut host.kernel, &mut host.thp] {
            text.push_str(WILD);
        }
        row.command = Some(format!("allocanary {WILD}"));
        if let Some(answer) = &mut row.measured {
            answer.version.push_str(WILD);
            answer.unproven.insert(format!("narenas{WILD}"), format!("it has no effect{WILD}"));
        }
        if let Some(error) = &mut row.error {
            error.text.push_str(WILD);
        }
    }
    let failed = rows[0].clone();
    let error = Some(Failure { kind: FailureKind::Crashed, text: format!("it ended{WILD}") });
    rows.push(Sample { error, measured: None, started_ms: 1, ..failed });
    rows
}

/// The rows as a JSON library writes them, without the escapes of our own writer.
fn file(folder: &TempDir, name: &str, rows: &[Sample]) {
    let text: String = rows.iter().map(|row| serde_json::to_string(row).unwrap() + "\n").collect();
    fs::write(folder.path().join(name), text).unwrap();
}

fn run(folder: &Path, line: &str) -> Ran {
    allocanary(folder, words(line))
}

/// No character of a text controls the terminal, except line feeds, which end lines.
fn assert_harmless(what: &str, text: &str) {
    let wrong: Vec<char> = text.chars().filter(|c| *c != '\n' && steers(*c)).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:?} in {text:?}");
}

#[test]
fn no_report_passes_on_what_a_terminal_obeys() {
    let folder = tempdir().unwrap();
    file(&folder, "wild.jsonl", &wild());
    file(&folder, "tame.jsonl", &samples(&golden_path("rows.jsonl")));
    let tame = |format: &str| run(folder.path(), &format!("report tame.jsonl --format {format}")).out;
    for format in ["table", "markdown", "csv", "html"] {
        let ran = run(folder.path(), &format!("report wild.jsonl --format {format}"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_harmless(format, &ran.out);
        assert_harmless(format, &ran.err);
        assert!(ran.out.contains("study\u{fffd}[2J"), "{format}: it is shown, and does nothing: {}", ran.out);
    }
    // Each table has the same number of columns as with harmless rows.
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let columns = |text: &str| -> Vec<usize> { text.lines().filter(|line| line.starts_with('|')).map(bars).collect() };
    let markdown = run(folder.path(), "report wild.jsonl --format markdown").out;
    let (mut wild_columns, mut tame_columns) = (columns(&markdown), columns(&tame("markdown")));
    wild_columns.dedup();
    tame_columns.dedup();
    assert_eq!(wild_columns, tame_columns, "{markdown}");
    assert!(!markdown.contains("<b>") || markdown.matches("<b>").all(|_| in_code(&markdown)), "{markdown}");
    let html = run(folder.path(), "report wild.jsonl --format html").out;
    assert!(!html.contains("<b>&amp;lt;") && !html.contains("<b>&lt;") && html.contains("&lt;b&gt;"), "{html}");
    let csv = run(folder.path(), "report wild.jsonl --format csv").out;
    let head = csv.lines().next().unwrap().split(',').count();
    for line in csv.lines() {
        assert_eq!(fields(line), head, "{line}");
    }
    assert!(csv.lines().next().unwrap().ends_with(",unproven") && csv.contains("\"narenas\u{fffd}[2J"), "{csv}");
}

/// Every tag of the rows is between backticks.
fn in_code(markdown: &str) -> bool {
    let outside: String = markdown.split('`').step_by(2).collect();
    !outside.contains("<b>")
}

/// The number of fields of a line of CSV.
fn fields(line: &str) -> usize {
    let mut quoted = false;
    1 + line
        .chars()
        .filter(|c| {
            quoted ^= *c == '"';
            *c == ',' && !quoted
        })
        .count()
}

#[test]
fn no_error_passes_on_what_a_terminal_obeys() {
    let folder = tempdir().unwrap();
    file(&folder, "wild.jsonl", &wild());
    let mut other = wild();
    other.iter_mut().for_each(|row| row.wall_us += 1);
    let mut lost = other.clone();
    lost.retain(|row| row.cell.candidate.to_string().starts_with("jemalloc"));
    file(&folder, "other.jsonl", &other);
    file(&folder, "lost.jsonl", &lost);
    let name = format!("a{}b", WILD.replace('\n', ""));
    fs::write(
        folder.path().join("torn.jsonl"),
        format!("{{\"schema\":1,\"cell\":\"{}\"}}\n{WILD}\n", "\u{202e}\u{9b}x"),
    )
    .unwrap();
    let text = |arguments: &[&str]| {
        let ran = allocanary(folder.path(), arguments);
        assert_harmless(&format!("{arguments:?}"), &ran.out);
        assert_harmless(&format!("{arguments:?}"), &ran.err);
        ran
    };
    text(&["compare", "wild.jsonl", "other.jsonl", "--gate", "resident=0%"]);
    let lost = text(&["compare", "wild.jsonl", "lost.jsonl", "--gate", "resident=0%"]);
    assert!(lost.code == Some(1) && lost.err.contains("lost: system\u{fffd}[2J"), "{lost:?}");
    let torn = text(&["report", "torn.jsonl"]);
    assert!(torn.code == Some(2) && torn.err.contains("not a row"), "{torn:?}");
    let missing = text(&["report", &name]);
    assert!(missing.code == Some(2) && missing.err.contains("reading rows"), "{missing:?}");
    for arguments in [
        ["study", &*name, "--candidates", "system"],
        ["study", "--candidates", &*name, "--out-dir"],
        ["list", &*name, "--cells", "."],
        ["compare", &*name, &*name, "--gate"],
        ["report", "wild.jsonl", "--format", &*name],
        ["report", "wild.jsonl", "--output", &*format!("none/{name}")],
        ["study", "--workloads", &*name, "--plan"],
    ] {
        let arguments: Vec<&str> =
            arguments.into_iter().filter(|word| *word != "--out-dir" && *word != "--gate").collect();
        let arguments: Vec<&str> = arguments.into_iter().filter(|word| *word != "--threads").collect();
        assert_eq!(text(&arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn a_study_with_a_wild_question_and_a_wild_folder_is_run_and_shown() {
    let folder = tempdir().unwrap();
    let question = "What\\u001b[2J does\\u202e it\\r cost?";
    let toml = format!(
        "name = \"x\\u009b\"\nquestion = \"{question}\"\ncandidates = [\"system\"]\nworkloads = [\"{TINY}\"]\nthreads = [1]\nrepeats = 1\n\
         [[published]]\nby = \"a\\u001bb\"\nwhat = \"c\\rd\"\nfigure = \"1 \\u202e\"\n"
    );
    fs::write(folder.path().join("wild.toml"), toml).unwrap();
    let out = "o\u{1b}[2J\u{202e}";
    for arguments in
        [vec!["study", "--plan", "wild.toml"], vec!["study", "wild.toml", "--out-dir", out], vec!["report", out]]
    {
        let ran = allocanary(folder.path(), &arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_harmless(arguments[0], &ran.out);
        assert_harmless(arguments[0], &ran.err);
        assert!(ran.out.contains("What\u{fffd}[2J does\u{fffd} it"), "{ran:?}");
    }
    // The file has the measured text, in a form that is safe to print.
    let text = fs::read_to_string(folder.path().join(out).join("samples.jsonl")).unwrap();
    assert!(text.contains("x\\u009b"), "{text}");
    assert_harmless("rows", &text);
    let page = fs::read_to_string(folder.path().join(out).join("report.html")).unwrap();
    assert_harmless("page", &page);
}

#[test]
fn a_row_is_written_so_that_it_reads_back() {
    for mut row in wild() {
        let line = written(&row);
        assert_harmless("row", &line);
        assert_eq!(serde_json::from_str::<Sample>(&line).unwrap(), row);
        row.cell.candidate = "é 漢字 😀".into();
        assert!(written(&row).contains("é 漢字 😀"));
    }
}
