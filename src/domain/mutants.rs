//! Bugs that are put in on purpose, to show that the simulation finds them. They exist only with the feature
//! `mutants`, and then only on a thread that has switched one on by name; normal builds have none of it.

/// A start writes its record whatever its version.
pub const START_IGNORES_RECORD: &str = "start_ignores_record";
/// A worker that comes back is taken over without its attachment being written.
pub const TAKEOVER_SKIPS_ATTACHMENT: &str = "takeover_skips_attachment";
/// A run that is written ahead of its time is told at once.
pub const TELLS_EARLY: &str = "tells_early";

#[cfg(feature = "mutants")]
thread_local! {
    static ON: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Switches a bug on for this thread, or none.
#[cfg(feature = "mutants")]
pub fn switch(name: Option<&'static str>) {
    ON.set(name);
}

/// Whether this bug is switched on.
#[cfg(feature = "mutants")]
pub fn is_on(name: &str) -> bool {
    ON.get() == Some(name)
}

/// Whether this bug is switched on: never.
#[cfg(not(feature = "mutants"))]
pub const fn is_on(_name: &str) -> bool {
    false
}
