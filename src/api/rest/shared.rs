//! State shared by the handlers of `/api`.

use std::sync::Arc;

use axum::extract::State;
use rosterd_runtime::clock::SharedClock;
use tokio_util::sync::CancellationToken;

use super::desk::Desk;
use super::overviews::Kept;
use super::recent::Recent;
use crate::alarms::Alarms;
use crate::backend::Backend;
use crate::history::History;
use crate::operator::Operator;

/// The shared state.
pub struct Rest {
    /// The coordinator.
    pub backend: Arc<dyn Backend>,
    /// The history.
    pub history: Arc<dyn History>,
    /// Executes changes.
    pub operator: Arc<Operator>,
    /// Alarms and silences.
    pub alarms: Arc<Alarms>,
    /// The clock.
    pub clock: SharedClock,
    /// Cancelled when watchers have to end.
    pub stop: CancellationToken,
    /// Recent events, for watchers that reconnect.
    pub recent: Arc<Recent>,
    /// Logging in.
    pub(crate) desk: Arc<Desk>,
    /// The last overview.
    pub overview: Kept,
    /// The page of a trace, `{trace_id}` in it.
    pub trace_url: Option<String>,
}

pub(super) type Shared = State<Arc<Rest>>;
