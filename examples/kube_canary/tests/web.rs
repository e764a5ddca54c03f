//! The web server as clients see it. In: a mesh that the test fills. Out: the bytes from the socket.

#![allow(clippy::disallowed_methods)]

#[path = "web/client.rs"]
mod client;
#[path = "web/fixture.rs"]
mod fixture;

#[path = "web/abuse.rs"]
mod abuse;
#[path = "web/pages.rs"]
mod pages;
#[path = "web/picture.rs"]
mod picture;
#[path = "web/reference.rs"]
mod reference;
