//! Remedies in addition to the allocator's settings, for programs in other languages and for well-known services. Each names the version
//! from which it works.

mod go;
mod jvm;
mod node;
mod php;
mod postgres;
mod redis;
mod ruby;
mod runtime;

use self::runtime::Runtime;

/// All runtimes and services.
pub(crate) const ALL: &[Runtime] =
    &[jvm::RUNTIME, redis::RUNTIME, php::RUNTIME, postgres::RUNTIME, node::RUNTIME, go::RUNTIME, ruby::RUNTIME];
