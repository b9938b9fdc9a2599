//! rosterd: a gRPC coordination service for polyglot workers.

pub mod api;
pub mod app;
pub mod cli;
pub mod code;
pub mod config;
pub mod coordinator;
pub mod history;
pub mod proto;
pub mod registry;
pub mod runtime;
pub mod session;
pub mod transfer;
