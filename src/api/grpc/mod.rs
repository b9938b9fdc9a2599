//! The gRPC services. Proto types live here and nowhere behind.

pub mod admin;
pub mod convert;
mod fires;
pub mod health;
mod paging;
mod rights;
mod rows;
mod scalar;
pub mod status;
mod watching;
pub mod worker;
