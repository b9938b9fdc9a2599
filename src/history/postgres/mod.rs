//! The history in PostgreSQL, which all coordinators of a namespace share: [`Library`] is read, the sender writes what waits
//! on the disk. All SQL of this store is in this folder. A database that is slow or away is waited for here alone.

mod lately;
mod link;
mod owners;
mod read;
mod schema;
mod sender;
mod tls;
mod upkeep;
mod write;

pub use link::{Address, AddressError};
pub use tls::{Roots, Trust};

pub(super) use read::Library;
pub(super) use sender::Sender;
