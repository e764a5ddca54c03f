//! Preloads of other allocators and other versions. In: a name such as `mimalloc@2.2`. Out: a shared library in a folder of the user's
//! cache, which exports the malloc family, and the version that the library reported in its trial.
//!
//! - [`releases`] says what can be built: an allocator, a version, and the published crate that has its sources.
//! - [`workspace`] writes a cargo workspace with that one crate in it: two crates that link one library cannot be in one workspace.
//! - [`make`] builds it with the user's cargo and C compiler, and [`trial`] runs a small program under the library.
//! - [`cache`] keeps libraries with their checksums, finds them again, and removes them.

// Numbers and texts are returned; only the command writes to a terminal.

mod allocators;
pub mod cache;
pub mod error;
pub mod make;
mod release;
pub mod releases;
mod step;
pub mod trial;
pub mod workspace;
