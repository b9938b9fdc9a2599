//! Parts of the state of a worker here. None of them knows the worker.

pub(crate) mod flight;
pub(crate) mod lease;
pub(crate) mod ledger;
pub(crate) mod link;
pub(crate) mod work;
