//! What every part runs on: clocks, tasks, logs and metrics. Nothing here knows what a job is.

pub mod clock;
pub mod mutants;
pub mod shares;
pub mod tasks;
pub mod telemetry;
pub mod version;
