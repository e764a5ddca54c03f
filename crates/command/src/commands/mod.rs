//! The verbs, one file each, and the modules that they share: `measure`, `terminal`, `progress`, `left`. Nothing
//! outside this module writes to the user's terminal.

pub mod build;
mod calls;
pub mod cells;
mod child;
pub mod compare;
pub mod completions;
pub mod doctor;
pub mod door;
pub mod fleet;
mod form;
pub mod give_back;
pub mod glossary;
pub mod heap;
pub mod here;
pub mod kube;
mod left;
mod library;
pub mod list;
pub mod man;
mod measure;
mod named;
pub mod node;
mod output;
pub mod plan;
pub mod preload;
mod production;
mod progress;
mod reader;
mod readings;
pub mod record;
pub mod replay;
pub mod report;
pub mod run;
mod studies;
pub mod study;
pub mod terminal;
pub mod trace;
pub mod trial;
pub mod tune;
#[cfg(test)]
mod vocabulary;
pub mod who;

pub use child::serve_if_asked;
pub use terminal::tell;
