//! rosterd: a gRPC coordination service for polyglot workers. The edge, the command line and what puts the parts
//! together; the parts themselves are crates in their folders, so that Cargo holds who may know whom.

pub mod app;
pub mod cli;
pub mod config;
pub mod transfer;
