//! `allocanary run` with limited huge pages: a static program, and one with a preload.

use std::fs;

use allocanary_sys::sys::HugePagePolicy;
use allocanary_testing::programs::compiled_to;
use tempfile::tempdir;

use super::support::{allocanary, samples, words};

#[test]
fn the_kernel_says_that_a_static_program_and_one_with_a_preload_get_no_huge_pages() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("service.c");
    let text = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(\"ready\"); fflush(stdout); pause(); return 0; }\n";
    fs::write(&source, text).unwrap();
    let built = |name: &str, flags: &[&str]| compiled_to(&folder.path().join(name), &[&source], flags).is_some();
    if !built("fixed", &["-static"]) || !built("moving", &[]) {
        return;
    }
    let run = |program: &str, candidates: &str| {
        let flags = format!(
            "run --ready line:ready --settle 1ms --repeats 1 --out-dir {program}-rows --candidates {candidates}"
        );
        allocanary(folder.path(), words(&format!("{flags} -- ./{program}")))
    };
    let ran = run("fixed", "own own:process_thp=never");
    if !HugePagePolicy::here().advised {
        assert!(ran.code == Some(2) && ran.err.contains("this host gives no transparent huge pages"), "{ran:?}");
        return;
    }
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = run("moving", "own preload=/no/such,process_thp=on");
    assert!(
        ran.code == Some(2) && ran.err.contains("process_thp: wanted one of never, advised, found `on`"),
        "{ran:?}"
    );
    let ran = run("moving", "jemalloc:process_thp=never,tcache=false");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut rows = samples(&folder.path().join("fixed-rows"));
    rows.extend(samples(&folder.path().join("moving-rows")));
    assert_eq!(rows.len(), 3);
    for row in rows {
        let answer = row.measured.as_ref().unwrap();
        let wanted = row.cell.candidate.to_string().contains("process_thp").then_some("never");
        assert_eq!(answer.found.get("process_thp").map(String::as_str), wanted, "{:?}", answer.unproven);
        assert!(answer.unproven.is_empty(), "{:?}", answer.unproven);
    }
}
