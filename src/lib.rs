//! rosterd: a gRPC coordination service for polyglot workers.

pub mod registry;
