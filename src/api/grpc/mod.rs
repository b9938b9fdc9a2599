//! The gRPC services. Proto types live here and nowhere behind.

pub mod admin;
pub mod backup;
mod fires;
pub mod health;
mod paging;
mod rights;
mod rows;
mod stats;
mod watching;
pub mod worker;
