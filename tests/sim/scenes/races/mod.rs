//! Race conditions of other schedulers, and holes in a model of the first design, each as a scene with its reference in
//! its name: `ej` Elastic-Job, `xxl` XXL-JOB, `pj` PowerJob, with the number of the public issue, and so on; `hole` is
//! a counter-example that a guard closes (see the table of guards in ARCHITECTURE.md).
//!
//! A scene is played twice: unchanged, and nothing is broken and the world is at rest at the end; and with the guard
//! that it depends on switched off, and the named invariant is broken. So each guard is shown to be needed, and each
//! invariant to be checked.

mod fires;
mod fixture;
mod held;
mod identities;
mod leaders;
mod leases;
mod model_counterexamples;
mod operators;
mod progress;
mod runs;
mod store;
mod table;
mod tools;
mod unneeded_work;

use rosterd_domain::verify::Fault;

pub use table::is_scene;

/// The bugs, by their names in the code: those of the coordinators, and those of the client.
pub mod bugs {
    pub use rosterd_client::mutants::*;
    pub use rosterd_domain::mutants::*;

    /// Whether this build has the bug: some are in patches.
    pub fn is_built(bug: &str) -> bool {
        ARE_PATCHED || !PATCHED.contains(&bug)
    }

    /// Switches one on for this thread, wherever it is defined, or none.
    pub fn only(bug: Option<&'static str>) {
        rosterd_domain::mutants::switch(bug);
        rosterd_client::mutants::switch(bug);
    }
}

/// A scene, and the bugs that it finds with the invariant that each breaks.
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

/// The violation of the invariant that the bug has to break.
pub fn found(race: &Race, bug: &'static str, rule: &str) -> Result<Fault, String> {
    let broken = played(race, Some(bug));
    let found = broken.iter().find(|broken| broken.rule == rule).cloned();
    found.ok_or_else(|| format!("{}: {bug} does not break {rule}, but {broken:#?}", race.name))
}

/// Both plays of a scene.
pub fn hold(race: &Race) {
    let broken = played(race, None);
    assert!(broken.is_empty(), "{}: {broken:#?}", race.name);
    for (bug, rule) in race.finds.iter().filter(|(bug, _)| bugs::is_built(bug)) {
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
