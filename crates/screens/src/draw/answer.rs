//! The main result of a verb: what to do, and the lines that do it. Every verb with an answer makes it once. Each output shows the
//! same value: a terminal at its end, the other outputs at their beginning.

use serde_json::{Map, Value, json};

/// What a verb says to do.
pub struct Answer {
    /// The answer in one sentence, or a few.
    pub text: String,
    /// The lines to paste, if the answer needs any.
    pub pasted: Option<Pasted>,
    /// The answer for a script: `choice`, and the figures. See [`document`].
    pub facts: Map<String, Value>,
}

/// The lines for a recommended candidate.
#[derive(Clone)]
pub struct Pasted {
    /// The candidate, as the reports name it.
    pub name: String,
    /// A heading for them.
    pub heading: String,
    /// The lines. Each has a label that names its place.
    pub lines: Vec<String>,
    /// A remark about them.
    pub note: Option<String>,
}

/// The output of a verb for `--json`: `schema`, `verb`, `answers`, and the verb's further keys in `besides`. New keys may be added at
/// any time. `schema` changes if a key changes its meaning.
pub fn document(verb: &str, answers: &[Answer], besides: Map<String, Value>) -> String {
    let mut page = Map::from_iter([
        ("schema".to_string(), json!(1)),
        ("verb".to_string(), json!(verb)),
        ("answers".to_string(), answers.iter().map(Answer::for_scripts).collect()),
    ]);
    page.extend(besides);
    format!("{:#}\n", Value::Object(page))
}

impl Answer {
    /// The answer's facts, its `text`, and its `lines`.
    pub fn for_scripts(&self) -> Value {
        let mut facts = self.facts.clone();
        facts.insert("text".into(), json!(self.text));
        facts.insert("lines".into(), json!(self.pasted.as_ref().map_or(&[][..], |pasted| &pasted.lines)));
        Value::Object(facts)
    }
}

/// The keys of an object.
pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
