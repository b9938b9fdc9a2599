//! One worker's conversation with its host.

pub mod frame;
pub(crate) mod key;
