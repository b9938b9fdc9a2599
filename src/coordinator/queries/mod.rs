//! Views for people, read from the current store: the same on any coordinator.

mod explained;
mod look;
pub(crate) mod looks;
pub(crate) mod rows;
mod survey;
mod views;
