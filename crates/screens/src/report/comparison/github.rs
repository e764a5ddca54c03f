//! A comparison as annotations of a GitHub job. In: answers. Out: workflow commands, one line each.

use crate::draw::Answer;

/// `::error title=allocanary::gate failed: ...`: an error for a failure, a warning for an undecided gate, a notice for the rest.
pub fn annotations(answers: &[Answer]) -> String {
    let line = |answer: &Answer| {
        let level = match answer.facts.get("choice").and_then(|choice| choice.as_str()) {
            Some("failed") => "error",
            Some("undecided") => "warning",
            _ => "notice",
        };
        format!("::{level} title=allocanary::{}\n", escaped(&answer.text))
    };
    answers.iter().map(line).collect()
}

/// Escapes a text: a command ends at the end of its line, and `%` begins an escape.
fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_command() {
        let of = |choice: &str, text: &str| Answer {
            text: text.into(),
            pasted: None,
            facts: [("choice".to_string(), choice.into())].into_iter().collect(),
        };
        let said = annotations(&[of("failed", "a +5 %\nb"), of("undecided", "c"), of("passed", "d")]);
        let wanted =
            "::error title=allocanary::a +5 %25%0Ab\n::warning title=allocanary::c\n::notice title=allocanary::d\n";
        assert_eq!(said, wanted);
    }
}
