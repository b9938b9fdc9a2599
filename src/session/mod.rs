//! One worker's conversation with its host.

pub mod frame;
