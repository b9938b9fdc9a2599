//! What the operating system asks of a process: SIGTERM and SIGINT are Leave, the second one Kill.

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

use crate::machine::words::Event;

pub(crate) fn orders() -> BoxStream<'static, Event> {
    stream::once(listen()).flatten().boxed()
}

#[cfg(unix)]
async fn listen() -> BoxStream<'static, Event> {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => numbered(stream::poll_fn(move |context| {
            if terminate.poll_recv(context).is_ready() {
                std::task::Poll::Ready(Some(()))
            } else {
                interrupt.poll_recv(context)
            }
        })),
        (Err(error), _) | (_, Err(error)) => {
            tracing::warn!("signals are not heard: {error}");
            stream::pending().boxed()
        }
    }
}

#[cfg(not(unix))]
async fn listen() -> BoxStream<'static, Event> {
    numbered(stream::unfold((), |()| async { tokio::signal::ctrl_c().await.ok().map(|()| ((), ())) }))
}

fn numbered(signals: impl stream::Stream<Item = ()> + Send + 'static) -> BoxStream<'static, Event> {
    let events = signals.enumerate().map(|(before, ())| if before == 0 { Event::Leave } else { Event::Kill });
    events.chain(stream::pending()).boxed()
}
