//! The edge over real loopback TCP, with a scripted coordinator behind it. Nothing here sleeps to wait: every
//! wait is for a state, with a deadline that only a failure reaches.

#![allow(clippy::disallowed_methods, reason = "tests measure")]
// A test binary exports nothing: items that its modules share are `pub`.
#![allow(unreachable_pub)]

mod admin;
mod auth;
#[path = "../support/certificates.rs"]
mod certificates;
mod console;
mod flood;
#[path = "../support/http.rs"]
mod http;
mod log;
mod login;
mod opening;
mod origin;
mod pages;
mod probes;
mod rest;
mod revoked;
mod session;
mod shutdown;
mod support;
mod texts;
mod tls;
mod told;
mod web;
