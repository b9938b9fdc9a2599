//! `Watch`: what happens, as it happens. A watcher that is too slow loses the oldest and is told how many; it
//! delays nobody.

use std::sync::Arc;

use futures_util::Stream;
use rosterd_domain::id::JobName;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::rows;
use rosterd_coordinator::handle::Happening;
use rosterd_runtime::clock::SharedClock;
use rosterd_wire::proto::v1;
use rosterd_wire::scalar::timestamp;

/// What happens to `job`, or at all, until `stop`.
pub(super) fn watch(
    happenings: broadcast::Receiver<Arc<Happening>>,
    job: Option<JobName>,
    clock: SharedClock,
    stop: CancellationToken,
) -> impl Stream<Item = Result<v1::WatchResponse, Status>> {
    futures_util::stream::unfold((happenings, job, clock, stop), |mut state| async move {
        let (happenings, job, clock, stop) = &mut state;
        loop {
            let happened = tokio::select! {
                () = stop.cancelled() => return None,
                happened = happenings.recv() => happened,
            };
            let told = match happened {
                Ok(happening) => {
                    let about = rows::about(&happening);
                    if job.as_ref().zip(about).is_some_and(|(wanted, about)| wanted != about) {
                        continue;
                    }
                    rows::happening(clock.wall(), &happening)
                }
                Err(RecvError::Lagged(count)) => v1::WatchResponse {
                    at: Some(timestamp(clock.wall())),
                    event: Some(v1::watch_response::Event::EventsLost(v1::EventsLostEvent { count })),
                },
                Err(RecvError::Closed) => return None,
            };
            return Some((Ok(told), state));
        }
    })
}
