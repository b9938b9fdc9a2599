//! A worker inside something else: a simulation, a test, another network, a command that shows coordinators who it is as a
//! worker does.
//!
//! [`Worker::drive`](crate::Worker::drive) runs the same conversation as [`Worker::run`](crate::Worker::run), in place,
//! over any [`Connector`] and [`Clock`]: in-memory channels and tokio's paused time make a worker part of a deterministic
//! simulation.
//!
//! **This changes with any release of tonic and prost, and is not covered by semantic versioning**: it shows types of both
//! (version 0.14), and the frames of the protocol as they are generated. Whoever turns the feature `embedding` on should name
//! an exact version of this crate.

pub use crate::access::{Access, explain, innermost};
pub use crate::clock::{BootClock, Clock, TokioClock};
pub use crate::connect::{Connector, LinkError, TonicConnector, Wire};

/// The frames of the worker protocol, for connectors of your own.
pub mod proto {
    pub use crate::proto::*;
}

/// What a coordinator answered instead of a stream, or in its midst.
impl From<tonic::Status> for LinkError {
    fn from(status: tonic::Status) -> Self {
        Self::answered(&status)
    }
}
