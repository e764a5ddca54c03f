//! Node: options in NODE_OPTIONS, and the number of libuv's threads. In: the program `node`. Out: whether it is Node.
//!
//! Node ends at once if it does not know an option of NODE_OPTIONS. An option on the command line overrides these.

use std::path::Path;

use super::knob::{Also, Knob, Usual, Way};
use super::runtime::{RuntimeKind, Traits, never};
use allocanary_facts::setting::SettingKind;

const OPTIONS: &str = "NODE_OPTIONS";

/// Node.
pub const NODE: RuntimeKind = RuntimeKind {
    name: "Node",
    knobs: &[
        Knob::new(
            "max_semi_space_size",
            SettingKind::Number { min: 1, max: 4096 },
            "Node: MiB of each of the two halves of V8's young generation",
            Way::Option(OPTIONS, "--max-semi-space-size="),
            Usual::Unknown,
            Also::Nothing,
        ),
        Knob::new(
            "v8_pool_size",
            SettingKind::Number { min: 0, max: 1024 },
            "Node: threads of V8 for collecting and compiling; 0 is none",
            Way::Option(OPTIONS, "--v8-pool-size="),
            Usual::Text("4"),
            Also::Nothing,
        ),
        Knob::new(
            "uv_threadpool_size",
            SettingKind::Number { min: 1, max: 1024 },
            "Node: threads of libuv for files, names and cryptography",
            Way::Variable("UV_THREADPOOL_SIZE"),
            Usual::Text("4"),
            Also::Nothing,
        ),
    ],
    tried: &[],
    recognise,
    ignores: never,
    is_changeable: false,
};

fn recognise(file: &Path) -> Option<Traits> {
    ["node", "nodejs"].contains(&file.file_name()?.to_str()?).then(Traits::default)
}
