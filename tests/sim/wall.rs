//! Walls between workers and coordinators: while one stands, frames wait in front of it, and no new stream comes up.

use std::collections::BTreeMap;

use crate::wire::{State, Way};

/// Between the processes at a desk, or all of them, and a coordinator.
#[derive(Debug, Clone)]
pub struct Wall {
    pub desk: Option<usize>,
    pub host: String,
    /// Which way nothing passes.
    pub way: Way,
}

impl Wall {
    fn stands(&self, process: &str, host: &str) -> bool {
        self.host == host && self.desk.is_none_or(|desk| process.starts_with(&format!("w{desk}.")))
    }
}

/// Those that stand, by number.
#[derive(Debug, Default)]
pub struct Walls {
    walls: BTreeMap<u64, Wall>,
    last: u64,
}

impl Walls {
    pub fn rise(&mut self, wall: Wall) -> u64 {
        self.last += 1;
        self.walls.insert(self.last, wall);
        self.last
    }

    pub fn fall(&mut self, number: u64) {
        self.walls.remove(&number);
    }

    /// A stream comes up only where frames pass both ways.
    pub fn between(&self, process: &str, host: &str) -> bool {
        self.walls.values().any(|wall| wall.stands(process, host))
    }

    /// What the walls do to a connection.
    pub fn silence(&self, process: &str, host: &str, state: &mut State) {
        for wall in self.walls.values().filter(|wall| wall.stands(process, host)) {
            state.silent_up |= wall.way != Way::Down;
            state.silent_down |= wall.way != Way::Up;
        }
    }
}
