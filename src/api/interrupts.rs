//! What may interrupt a stream's task, which is woken for each frame: a shutdown, a revoked credential, the end of the
//! answer. It looks for them each time, and hardly ever finds one, so a look is one read of a flag. (`FuturesUnordered`
//! reads several places, which for an idle worker are not in the processor's caches.)

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;

/// Futures that are polled only after one of them has woken. One task looks at them, always the same.
pub(super) struct Interrupts<'a> {
    sources: Vec<BoxFuture<'a, ()>>,
    signal: Arc<Signal>,
}

/// Wakes the task, and says that it was not for a frame.
#[derive(Default)]
struct Signal {
    woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl<'a> Interrupts<'a> {
    /// Each of these interrupts once.
    pub(super) fn new(sources: impl IntoIterator<Item = BoxFuture<'a, ()>>) -> Self {
        let signal = Arc::new(Signal { woken: AtomicBool::new(true), task: AtomicWaker::new() });
        Self { sources: sources.into_iter().collect(), signal }
    }

    /// Another one, that is polled at the next look.
    pub(super) fn push(&mut self, source: BoxFuture<'a, ()>) {
        self.sources.push(source);
        self.signal.woken.store(true, Ordering::Release);
    }

    /// Waits for the next interrupt.
    pub(super) async fn next(&mut self) {
        poll_fn(|cx| self.poll_next(cx)).await;
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.signal.woken.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        // In this order: a source that wakes from here on makes the task look again.
        self.signal.task.register(cx.waker());
        self.signal.woken.store(false, Ordering::SeqCst);
        let waker = Waker::from(self.signal.clone());
        let mut own = Context::from_waker(&waker);
        let ready = self.sources.iter_mut().position(|source| source.poll_unpin(&mut own).is_ready());
        let Some(ready) = ready else { return Poll::Pending };
        drop(self.sources.swap_remove(ready));
        // Those after it were not polled.
        self.signal.woken.store(true, Ordering::Release);
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::poll;
    use tokio::sync::Notify;

    use super::*;

    /// Interrupts when notified, and counts how often it is polled.
    fn counted<'a>(notify: &'a Notify, polls: &'a AtomicUsize) -> BoxFuture<'a, ()> {
        let mut notified = Box::pin(notify.notified());
        poll_fn(move |cx| {
            polls.fetch_add(1, Ordering::Relaxed);
            notified.poll_unpin(cx)
        })
        .boxed()
    }

    #[tokio::test]
    async fn each_source_interrupts_once_and_none_is_polled_unless_one_has_woken() {
        let (first, second, polls) = (Notify::new(), Notify::new(), AtomicUsize::new(0));
        let mut interrupts = Interrupts::new([counted(&first, &polls), counted(&second, &polls)]);
        for _ in 0..3 {
            assert!(poll!(Box::pin(interrupts.next())).is_pending());
            assert_eq!(polls.load(Ordering::Relaxed), 2);
        }
        first.notify_one();
        second.notify_one();
        for _ in 0..2 {
            assert!(poll!(Box::pin(interrupts.next())).is_ready());
        }
        assert!(poll!(Box::pin(interrupts.next())).is_pending());
        first.notify_one();
        interrupts.push(counted(&first, &polls));
        assert!(poll!(Box::pin(interrupts.next())).is_ready(), "one that was added is polled");
        assert!(poll!(Box::pin(interrupts.next())).is_pending());
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let notify = Notify::new();
        let mut interrupts = Interrupts::new([notify.notified().boxed()]);
        let later = async {
            tokio::task::yield_now().await;
            notify.notify_one();
        };
        tokio::join!(interrupts.next(), later);
    }
}
