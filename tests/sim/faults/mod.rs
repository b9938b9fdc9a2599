//! All faults of a world, and all operator requests: as values in a script (`disruption`), and their effects
//! (`inject`).

pub mod disruption;
pub mod hostile_worker;
pub mod inject;
pub mod operator_request;
pub mod partition;
pub mod store;
