//! Signals of the operating system: SIGTERM and SIGINT are Leave, the second one Kill.
//!
//! Supervisors and `timeout` signal a process and its group, so one request arrives as two signals. Those within
//! [`ONE_REQUEST`] of the first count as the first.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

use crate::clock::Clock;
use crate::machine::types::MachineEvent;

/// Signals that arrive this soon after the first one repeat it.
const ONE_REQUEST: Duration = Duration::from_secs(1);

pub(crate) fn orders<K: Clock>(clock: Arc<K>) -> BoxStream<'static, MachineEvent> {
    let mut first = None;
    let order = move |()| std::future::ready(order(&mut first, clock.now()));
    stream::once(listen()).flatten().filter_map(order).boxed()
}

/// The meaning of one signal, by its time and that of the first.
fn order(first: &mut Option<Duration>, at: Duration) -> Option<MachineEvent> {
    let Some(first) = *first else {
        *first = Some(at);
        return Some(MachineEvent::Signal);
    };
    (at >= first + ONE_REQUEST).then_some(MachineEvent::Kill)
}

#[cfg(unix)]
async fn listen() -> BoxStream<'static, ()> {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => stream::poll_fn(move |context| {
            if terminate.poll_recv(context).is_ready() {
                std::task::Poll::Ready(Some(()))
            } else {
                interrupt.poll_recv(context)
            }
        })
        .boxed(),
        (Err(error), _) | (_, Err(error)) => {
            tracing::warn!("cannot listen for signals: {error}");
            stream::pending().boxed()
        }
    }
}

#[cfg(not(unix))]
async fn listen() -> BoxStream<'static, ()> {
    let interrupts = stream::unfold((), |()| async { tokio::signal::ctrl_c().await.ok().map(|()| ((), ())) });
    interrupts.chain(stream::pending()).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of signals that arrive at these times, in milliseconds.
    fn events(times: &[u64]) -> Vec<MachineEvent> {
        let mut first = None;
        times.iter().filter_map(|at| order(&mut first, Duration::from_millis(*at))).collect()
    }

    #[test]
    fn signals_within_a_second_of_the_first_are_one_request() {
        assert!(matches!(events(&[5_000, 5_000, 5_400, 5_999])[..], [MachineEvent::Signal]));
    }

    #[test]
    fn a_signal_a_second_after_the_first_kills() {
        assert!(matches!(events(&[5_000, 6_000])[..], [MachineEvent::Signal, MachineEvent::Kill]));
        assert!(matches!(events(&[5_000, 5_500, 6_100])[..], [MachineEvent::Signal, MachineEvent::Kill]));
    }
}
