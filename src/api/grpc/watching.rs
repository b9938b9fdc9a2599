//! `Watch`: events as they happen. A watcher that is too slow loses the oldest and is told how many; it does not delay
//! others.

use std::sync::Arc;

use futures_util::Stream;
use rosterd_domain::id::JobName;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::rows;
use rosterd_coordinator::handle::ClusterEvent;
use rosterd_runtime::clock::SharedClock;
use rosterd_wire::proto::v1;
use rosterd_wire::scalar::timestamp;

/// The events of `job`, or all, until `stop`.
pub(super) fn watch(
    events: broadcast::Receiver<Arc<ClusterEvent>>,
    job: Option<JobName>,
    clock: SharedClock,
    stop: CancellationToken,
) -> impl Stream<Item = Result<v1::WatchResponse, Status>> {
    futures_util::stream::unfold((events, job, clock, stop), |mut state| async move {
        let (events, job, clock, stop) = &mut state;
        loop {
            let happened = tokio::select! {
                () = stop.cancelled() => return None,
                happened = events.recv() => happened,
            };
            let response = match happened {
                Ok(event) => {
                    let about = event.job();
                    if job.as_ref().zip(about).is_some_and(|(wanted, about)| wanted != about) {
                        continue;
                    }
                    rows::watch_event(clock.wall(), &event)
                }
                Err(RecvError::Lagged(count)) => v1::WatchResponse {
                    at: Some(timestamp(clock.wall())),
                    event: Some(v1::watch_response::Event::EventsLost(v1::EventsLostEvent { count })),
                },
                Err(RecvError::Closed) => return None,
            };
            return Some((Ok(response), state));
        }
    })
}
