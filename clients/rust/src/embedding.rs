//! A worker inside something else: a simulation, a test, another network, a command that authenticates like a worker.
//!
//! [`Worker::drive`](crate::Worker::drive) runs the same conversation as [`Worker::run`](crate::Worker::run), in place,
//! over any [`Connector`] and [`Clock`]: in-memory channels and tokio's paused time make a worker part of a deterministic
//! simulation.
//!
//! **This changes with any release of tonic and prost, and is not covered by semantic versioning**: it exposes types of
//! both (version 0.14), and the generated frames of the protocol. Users of the feature `embedding` should depend on an
//! exact version of this crate.

pub use crate::access::{Access, explain, innermost};
pub use crate::clock::{BootClock, Clock, TokioClock};
pub use crate::connect::{Connector, TonicConnector, Wire};
pub use crate::link_error::LinkError;

/// The frames of the worker protocol, for connectors of your own.
pub mod proto {
    pub use crate::proto::*;
}

/// The status with which a coordinator answered, instead of a stream or during one.
impl From<tonic::Status> for LinkError {
    fn from(status: tonic::Status) -> Self {
        Self::answered(&status)
    }
}
