//! rosterd: a gRPC coordination service for polyglot workers.

pub mod code;
pub mod coordinator;
pub mod history;
pub mod registry;
pub mod session;
