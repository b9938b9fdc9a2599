//! The gRPC services. Proto types live here and nowhere behind.

pub mod convert;
mod scalar;
pub mod status;
pub mod worker;
