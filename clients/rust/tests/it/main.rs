//! The worker as its users run it, against coordinators that follow a test's script: in memory under paused time, and
//! over real gRPC.

#![allow(clippy::disallowed_methods, reason = "tests measure")]

mod embedded;
mod fences;
mod grpc;
mod handlers;
mod leaving;
mod observe;
mod script;
mod stalls;
