//! Races that other schedulers lost, and holes that a model of the first design had, each as a scene with its
//! reference in its name: `ej` Elastic-Job, `xxl` XXL-JOB, `pj` PowerJob, with the number of the public issue, and so
//! on; `hole` is a counter-example that a guard closes (see the table of guards in ARCHITECTURE.md).
//!
//! A scene is played twice: as it is, and nothing is broken and all is at peace at the end; and with the guard that it
//! rests on switched off, and the named promise is broken. So each guard is shown to be needed, and each promise to
//! be looked at.

mod fires;
mod held;
mod holes;
mod imposters;
mod leaders;
mod leases;
mod operators;
mod progress;
mod runs;
mod stage;
mod store;
mod table;
mod thrift;
mod tools;

use rosterd_domain::verify::Fault;

pub use table::is_scene;

/// The bugs, by their names in the code: those of the coordinators, and those of the client.
pub mod bugs {
    pub use rosterd_client::mutants::*;
    pub use rosterd_domain::mutants::*;

    /// Switches one on for this thread, wherever it is, or none.
    pub fn only(bug: Option<&'static str>) {
        rosterd_domain::mutants::switch(bug);
        rosterd_client::mutants::switch(bug);
    }
}

/// A scene, and the bugs that it finds with the promise that each breaks.
pub struct Race {
    pub name: &'static str,
    pub play: fn() -> Vec<Fault>,
    pub finds: &'static [(&'static str, &'static str)],
}

/// Plays a scene with a bug, or without.
pub fn played(race: &Race, bug: Option<&'static str>) -> Vec<Fault> {
    bugs::only(bug);
    let broken = (race.play)();
    bugs::only(None);
    broken
}

/// The promise that the bug was to break, as it was found broken.
pub fn found(race: &Race, bug: &'static str, rule: &str) -> Result<Fault, String> {
    let broken = played(race, Some(bug));
    let found = broken.iter().find(|broken| broken.rule == rule).cloned();
    found.ok_or_else(|| format!("{}: {bug} does not break {rule}, but {broken:#?}", race.name))
}

/// Both plays of a scene.
pub fn hold(race: &Race) {
    let broken = played(race, None);
    assert!(broken.is_empty(), "{}: {broken:#?}", race.name);
    for (bug, rule) in race.finds {
        found(race, bug, rule).unwrap_or_else(|why| panic!("{why}"));
    }
}

/// Scenes as tests, and as a table: `name: scene, [bug => promise, …];`.
macro_rules! races {
    ($($(#[$doc:meta])* $name:ident: $scene:expr $(, [$($bug:ident => $rule:literal),*])?;)*) => {
        /// The scenes of this file.
        pub const RACES: &[super::Race] = &[$(super::Race {
            name: stringify!($name),
            play: $scene,
            finds: &[$($((super::bugs::$bug, $rule)),*)?],
        }),*];
        $($(#[$doc])* #[test] fn $name() {
            let race = RACES.iter().find(|race| race.name == stringify!($name));
            super::hold(race.unwrap_or_else(|| unreachable!()));
        })*
    };
}
pub(crate) use races;
