//! The web server as its clients meet it. In: a mesh filled by hand. Out: what comes over the socket.

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
