//! One worker's conversation with its host.

pub mod code;
pub mod frame;
pub mod jobs;
pub mod key;
pub mod limits;
pub mod machines;
pub mod trace;
