//! One worker's conversation with its host.

pub mod code;
pub mod frame;
pub mod key;
