//! The wire: the protocol's types as generated from `proto/`, and the one place that turns workers' frames into the
//! session's words and refusals into statuses. What comes in is hostile until it has passed here.

pub mod codec;
pub mod convert;
mod offer;
pub mod proto;
pub mod scalar;
pub mod status;
pub mod text;
