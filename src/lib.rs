//! rosterd: a gRPC coordination service for polyglot workers.

pub mod app;
pub mod cli;
pub mod code;
pub mod config;
pub mod coordinator;
pub mod proto;
pub mod registry;
pub mod session;
