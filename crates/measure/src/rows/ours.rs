//! Checks that a file contains rows, so that rows are never appended to another kind of file. In: an open file. Out:
//! yes or no.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use serde::Deserialize;

use super::MOST_LINE;

/// The fields of a row in every schema.
#[derive(Deserialize)]
struct AnyRow {
    #[serde(rename = "schema")]
    _schema: u32,
}

/// The beginning of a row whose writer was killed within the line.
const BEGINNING: &[u8] = b"{\"schema\":";

/// Whether the first line that is not blank is a row, or the beginning of one. A file without such a line is empty.
pub fn holds_rows(file: &mut File) -> std::io::Result<bool> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(MOST_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(true);
        }
        if !line.trim_ascii().is_empty() {
            break;
        }
    }
    let torn = !line.ends_with(b"\n") && (line.starts_with(BEGINNING) || BEGINNING.starts_with(&line));
    let object = line.trim_ascii().starts_with(b"{"); // serde accepts a list for a struct as well
    Ok(torn || object && serde_json::from_slice::<AnyRow>(&line).is_ok())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn rows_are_told_from_other_texts() {
        let holds = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            holds_rows(&mut file).unwrap()
        };
        for text in
            ["", "\n\n", "{\"sch", "{\"schema\":1,\"cell\":{\"can", "{\"cell\":{},\"schema\":1}\n", "{\"schema\":9}\nx"]
        {
            assert!(holds(text), "{text:?}");
        }
        for text in ["root:x:0:0\n", "{}\n", "[1]", "a,b\n1,2\n", "{\"schema\":\n", "\n127.0.0.1 localhost", "x"] {
            assert!(!holds(text), "{text:?}");
        }
        assert!(!holds(&"\0".repeat(5 << 20)));
    }
}
