//! The stream of events, for a page that shows them: those that it missed since it last listened, then new ones.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use rosterd_domain::id::JobName;
use serde::Deserialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use super::parts::{Query, job};
use super::problem::Problem;
use super::recent::{Recent, event};
use super::shared::Shared;

/// After this time without an event a comment is sent, so that no proxy considers the connection dead.
const QUIET: Duration = Duration::from_secs(15);

/// A filter of events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LiveQuery {
    /// Only events of this job, and events that are not about a job.
    job: Option<String>,
}

#[utoipa::path(get, path = "/api/live", tag = "history", params(LiveQuery, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received: the stream continues after it.")), responses((status = 200, content_type = "text/event-stream", body = String, description = "Events run_started, run_ended, run_progress, fires_not_run, assigned, worker (change: attached, draining, left or dead), job (action: create, pause and so on), and lost if events before it were lost.")))]
/// Streams events from now on, each within a tenth of a second after its commit.
pub(super) async fn live(
    State(rest): Shared,
    headers: HeaderMap,
    Query(query): Query<LiveQuery>,
) -> Result<Response, Problem> {
    let of = query.job.map(job).transpose()?;
    let recent = rest.recent.clone();
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let newest = *recent.newest.borrow();
    // An id of another run of the coordinator does not say what was missed.
    let (from, unknown) = match seen.map(|id| recent.number(id)) {
        None => (newest, false),
        Some(Some(number)) => (number, false),
        Some(None) => (newest, true),
    };
    let news = recent.newest.subscribe();
    let state =
        Watching { recent, news, from, lost: unknown, ready: VecDeque::new(), of, stop: rest.stop.clone() };
    // Proxies hold the headers of an answer back until its body starts.
    let hello = futures_util::stream::once(async { Ok(COMMENT) });
    let body = Body::from_stream(hello.chain(futures_util::stream::unfold(state, Watching::next)));
    Ok(([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")], body).into_response())
}

/// An empty comment, which shows that the stream is alive.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// One watcher.
struct Watching {
    recent: Arc<Recent>,
    news: watch::Receiver<u64>,
    /// The last event that was sent.
    from: u64,
    /// Whether events before it were lost.
    lost: bool,
    ready: VecDeque<Bytes>,
    of: Option<JobName>,
    stop: CancellationToken,
}

impl Watching {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        loop {
            if std::mem::take(&mut self.lost) {
                let lost = event(&self.recent.epoch, "lost", self.from, "{}");
                return Some((Ok(lost.into()), self));
            }
            if let Some(text) = self.ready.pop_front() {
                return Some((Ok(text), self));
            }
            let (batches, lost) = self.recent.after(self.from);
            if let Some(last) = batches.last() {
                let texts =
                    batches.iter().map(|batch| batch.after(&self.recent.epoch, self.from, self.of.as_ref()));
                self.ready.extend(texts.filter(|text| !text.is_empty()));
                (self.from, self.lost) = (last.last(), lost);
                continue;
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                changed = self.news.changed() => if changed.is_err() { return None },
                () = tokio::time::sleep(QUIET) => return Some((Ok(COMMENT), self)),
            }
        }
    }
}
