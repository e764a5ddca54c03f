//! What owners of programs in other languages, and of well-known services, can do in addition to the allocator's settings. In: what a
//! process shows. Out: remedies. Each names the version from which it works.

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
