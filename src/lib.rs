//! rosterd: a gRPC coordination service for polyglot workers. The edge, the command line and what puts the parts
//! together; the parts themselves are crates in their folders, so that Cargo holds who may know whom.

pub mod app;
pub mod cli;
pub mod config;
pub mod transfer;

pub use rosterd_api as api;
pub use rosterd_coordinator as coordinator;
pub use rosterd_history as history;
pub use rosterd_registry as registry;
pub use rosterd_runtime as runtime;
pub use rosterd_session::{self as session, code};
pub use rosterd_wire::proto;
