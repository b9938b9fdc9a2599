//! The gRPC services. Proto types are used here only.

pub mod admin;
pub(crate) mod alarms;
pub mod backup;
mod frame_stream;
pub mod health;
mod paging;
mod rows;
mod stats;
mod watching;
pub mod worker;
