//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! What a person sees: tables, pages, pictures and the answers of all verbs. In: findings and readings. Out: text, HTML, JSON
//! and CSV. Nothing here measures, reads a process or prints.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod draw;
pub mod report;
pub mod views;
