//! What every part runs on: clocks, tasks, logs, metrics, private files. Nothing here knows what a job is.

pub mod aside;
pub mod clock;
pub mod lookup;
pub mod mutants;
pub mod private;
pub mod shares;
pub mod tasks;
pub mod telemetry;
pub mod version;
