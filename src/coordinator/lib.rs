//! The shell around the domain: only this crate awaits and handles time.
//!
//! [`machine::Machine`] is the state machine, without I/O; [`driver`] executes its effects; [`handle::Handle`] is what
//! the API layers use. Nothing here knows the format of a znode or of a proto message.

mod cluster;
pub mod driver;
mod edge_queue;
pub mod handle;
mod inbox;
mod io;
mod job;
mod machine;
mod observers;
mod outbox;
mod queries;
mod schedule;
#[cfg(test)]
mod tests;
pub mod tracer;
mod workers;

pub use cluster::members as member;
pub use io::standing;
pub use io::{event, settings};
