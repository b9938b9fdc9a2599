//! The worker as its users run it, against coordinators that follow a test's script: in memory under paused time, and
//! over real gRPC.

mod embedded;
mod grpc;
mod handlers;
mod leaving;
mod script;
