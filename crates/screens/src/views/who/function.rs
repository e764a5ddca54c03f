//! The function of a site in JSON. In: a site's frame, or JSON. Out: JSON, or the key that identifies the site.

use allocanary_names::{FunctionId, NamedFrame};
use allocanary_who::same::SiteKey;
use serde_json::{Map, Value, json};

use crate::draw::object;

/// What is known of a site's function.
pub(super) fn json(name: &str, frame: &NamedFrame) -> Map<String, Value> {
    let known = |text: &str| Some(text.to_string()).filter(|text| !text.is_empty());
    let declared = frame.identity.as_ref().map(|of| match of.line {
        0 => of.file.clone(),
        line => format!("{}:{line}", of.file),
    });
    let identity = frame.identity.as_ref().map(
        |of| json!({ "path": of.path, "file": of.file, "line": of.line, "column": of.column, "address": of.address }),
    );
    object(json!({
        "name": name, "function": known(&frame.function).filter(|_| frame.is_named()), "file": known(&frame.file),
        "declared": declared.filter(|place| !place.is_empty()), "line": Some(frame.line).filter(|line| *line > 0),
        "module": known(&frame.module), "build_id": known(&frame.build_id), "named_by": frame.source.word(), "identity": identity,
    }))
}

/// The key that identifies a site of such JSON. `None` if it has no name.
pub(super) fn key(site: &Value) -> Option<SiteKey> {
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_string();
    let number = |of: &Value, key: &str| u32::try_from(of[key].as_u64().unwrap_or(0)).unwrap_or(0);
    let of = Some(&site["identity"]).filter(|of| of.is_object());
    let function = of.map(|of| FunctionId {
        path: text(of, "path"),
        file: text(of, "file"),
        line: number(of, "line"),
        column: number(of, "column"),
        address: of["address"].as_u64().unwrap_or(0),
    });
    let (module, build_id) = (text(site, "module"), text(site, "build_id"));
    Some(SiteKey { name: site["name"].as_str()?.into(), module, build_id, function, line: number(site, "line") })
}
