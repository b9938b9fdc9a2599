//! Partitions between workers and coordinators: while one lasts, frames wait in front of it, and no new stream opens.

use std::collections::BTreeMap;

use crate::world::network::{ConnectionState, Direction};

/// Between the processes on a machine, or all workers, and a coordinator.
#[derive(Debug, Clone)]
pub struct Partition {
    pub machine: Option<usize>,
    pub host: String,
    /// The blocked direction.
    pub direction: Direction,
}

impl Partition {
    fn separates(&self, process: &str, host: &str) -> bool {
        self.host == host && self.machine.is_none_or(|machine| process.starts_with(&format!("w{machine}.")))
    }
}

/// The current partitions, by number.
#[derive(Debug, Default)]
pub struct Partitions {
    partitions: BTreeMap<u64, Partition>,
    last: u64,
}

impl Partitions {
    pub fn begin(&mut self, partition: Partition) -> u64 {
        self.last += 1;
        self.partitions.insert(self.last, partition);
        self.last
    }

    pub fn end(&mut self, number: u64) {
        self.partitions.remove(&number);
    }

    /// A stream opens only if frames pass in both directions.
    pub fn between(&self, process: &str, host: &str) -> bool {
        self.partitions.values().any(|partition| partition.separates(process, host))
    }

    /// The effect of the partitions on a connection.
    pub fn silence(&self, process: &str, host: &str, state: &mut ConnectionState) {
        for partition in self.partitions.values().filter(|partition| partition.separates(process, host)) {
            state.silent_up |= partition.direction != Direction::Down;
            state.silent_down |= partition.direction != Direction::Up;
        }
    }
}
