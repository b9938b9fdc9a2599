//! What is judged, and where each line of it stands.

use std::path::PathBuf;

use rosterd_domain::time::Time;
use rosterd_domain::verify::Line;
use rosterd_domain::verify::history::Trace;

/// What is judged, and where each line stands.
pub(super) struct Evidence {
    pub(super) lines: Vec<Line>,
    pub(super) places: Places,
    /// Of a history.
    pub(super) trace: Option<Trace>,
    /// What could not be looked at.
    pub(super) notes: Vec<String>,
    /// From when on a history is judged.
    pub(super) since: Time,
}

/// Where lines stand.
pub(super) enum Places {
    /// In files: which, and the number from 1.
    Files(Vec<PathBuf>, Vec<(usize, usize)>),
    /// In a history: its name and the row's, of each.
    History(Vec<String>),
}

impl Evidence {
    pub(super) fn of_history(mut trace: Trace, notes: Vec<String>, since: Time) -> Self {
        let (lines, places) = (std::mem::take(&mut trace.lines), std::mem::take(&mut trace.places));
        Self { lines, places: Places::History(places), trace: Some(trace), notes, since }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.trace.as_ref().is_none_or(|trace| trace.results.is_empty())
    }
}
