//! The history in PostgreSQL, which all coordinators of a namespace share: [`Library`] reads it, the sender writes the
//! records that wait on the disk. All SQL of this store is in this folder. No other code waits for a slow or
//! unreachable database.

mod lately;
mod link;
mod owners;
mod read;
mod rows;
mod schema;
mod sender;
mod tls;
mod upkeep;
mod write;

pub use link::{Address, AddressError};
pub use tls::{Roots, Trust};

pub(super) use read::Library;
pub(super) use sender::Sender;
