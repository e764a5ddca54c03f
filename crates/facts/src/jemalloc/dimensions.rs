//! The settings of jemalloc that are worth a search.

use std::time::Duration;

use crate::dimension::Dimension;
use crate::dimension::DimensionStage::{First, Second};

pub const DIMENSIONS: &[Dimension] = &[
    Dimension::new("narenas", &["1", "2", "cores"], First, "arenas"),
    Dimension::new("tcache", &["false"], First, "thread caches"),
    Dimension::new("dirty_decay_ms", &["0"], First, "freed pages"),
    // A page goes back to the system only after its decay time. In an idle process, only a background thread gives it back.
    Dimension {
        acts_after: Duration::from_millis(1000),
        with: &[("background_thread", "true")],
        ..Dimension::new("dirty_decay_ms", &["1000"], First, "freed pages")
    },
    Dimension {
        without: &[("tcache", "false")],
        ..Dimension::new("tcache_max", &["1024", "4096"], Second, "thread caches")
    },
    Dimension {
        without: &[("tcache", "false")],
        ..Dimension::new("lg_tcache_nslots_mul", &["-2"], Second, "thread caches")
    },
    Dimension::new("narenas", &["4"], Second, "arenas"),
    Dimension::new("muzzy_decay_ms", &["0"], Second, "freed pages"),
    Dimension::new("oversize_threshold", &["1073741824"], Second, "large blocks"),
];
