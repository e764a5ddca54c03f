//! The facts about this program. In: the build. Out: the labels of `build_info`.

use serde::Serialize;

/// Describes the build.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// The version of the canary.
    pub version: &'static str,
    /// The installed allocator; `unknown` if none was installed through allocanary.
    pub allocator: &'static str,
    /// The processor that it was built for.
    pub architecture: &'static str,
}

impl Facts {
    /// The facts of this build.
    pub fn of_this_build() -> Self {
        Facts {
            version: env!("CARGO_PKG_VERSION"),
            allocator: allocanary::tuning::allocator().unwrap_or("unknown"),
            architecture: std::env::consts::ARCH,
        }
    }
}
