//! The settings of runtimes that are worth a search. In: nothing. Out: rows, by runtime.

use std::time::Duration;

use allocanary_facts::dimension::Dimension;
use allocanary_facts::dimension::DimensionStage::{Alone, First, Second};

/// The rows of each runtime, by its name.
pub const ALL: &[(&str, &[Dimension])] =
    &[("Go", GO), ("Java", JAVA), ("CPython", PYTHON), ("Node", NODE), ("Ruby", RUBY)];

const GO: &[Dimension] = &[
    // Without collections a heap grows until it reaches a limit.
    Dimension {
        needs: Some(("off", "memlimit")),
        ..Dimension::new("gogc", &["50", "200", "400", "off"], First, "garbage until the next collection")
    },
    Dimension::new("memlimit", &["0.5x", "0.75x", "1x"], First, "garbage until the next collection"),
    Dimension::new("maxprocs", &["half"], Alone, "threads that run Go code"),
];

const JAVA: &[Dimension] = &[
    // The JVM also chooses its collector by this number. On one processor it takes the serial collector.
    Dimension::new("cpus", &["1", "half"], First, "threads of the collector and the compiler"),
    Dimension {
        acts_after: Duration::from_millis(500),
        ..Dimension::new("trim", &["250"], First, "free memory of C's heap")
    },
    Dimension::new("xss", &["262144"], Second, "stacks"),
];

const PYTHON: &[Dimension] = &[Dimension::new("pymalloc", &["off"], First, "arenas of small objects")];

const NODE: &[Dimension] = &[
    Dimension::new("max_semi_space_size", &["1", "4", "32"], First, "the young generation"),
    Dimension::new("v8_pool_size", &["1"], Second, "threads of V8"),
    Dimension::new("uv_threadpool_size", &["1"], Alone, "threads of libuv"),
];

const RUBY: &[Dimension] = &[
    Dimension::new("gc_heap_growth_factor", &["1.1", "1.4"], First, "free slots"),
    Dimension::new("gc_heap_oldobject_limit_factor", &["1.2"], First, "old garbage"),
    Dimension::new("gc_malloc_limit_max", &["16777216"], Second, "garbage until the next collection"),
];
