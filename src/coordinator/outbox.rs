//! The frames for one worker, on their way from the driver to the worker's stream. The stream takes a frame only when the
//! worker has room for it, so what a worker leaves unread waits here, and is seen here.
//!
//! Three hold an end: the driver sends, the body of the answer takes, and the stream's task monitors both, since the body
//! is not asked while the worker reads nothing. A channel has two ends, and would need a second one from this task to the
//! body, which costs a fleet of idle workers a wake-up per heartbeat.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rosterd_domain::id::JobName;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::ToWorker;
use tokio::sync::Notify;

/// For how many frames an empty queue keeps room.
const KEPT: usize = 64;

/// Creates an outbox for `most` frames.
pub fn outbox(most: usize) -> (OutboxSender, Outbox) {
    let shared = Arc::new(Shared { most, state: Mutex::default(), monitored: Notify::new() });
    (OutboxSender(shared.clone()), Outbox(shared))
}

/// What became of a frame that was sent.
#[derive(Debug, PartialEq)]
pub enum Sent {
    /// It waits to be taken.
    Queued,
    /// As many frames wait as are allowed: here it is again.
    Full(ToWorker),
    /// Nobody takes frames any longer.
    Gone,
}

/// How the driver ended the frames.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// With a `Close`.
    Closed(Option<Refusal>),
    /// Without: it has stopped.
    Stopped,
}

/// The driver's end; when it is dropped, the frames end.
#[derive(Debug)]
pub struct OutboxSender(Arc<Shared>);

/// The end that takes the frames; when it is dropped, no more are accepted.
#[derive(Debug)]
pub struct Outbox(Arc<Shared>);

/// Sees both ends; when it is dropped, no more frames are accepted.
#[derive(Debug)]
pub struct OutboxMonitor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    state: Mutex<State>,
    /// Wakes the monitor.
    monitored: Notify,
}

#[derive(Debug, Default)]
struct State {
    frames: FrameQueue,
    /// Jobs that the worker was told not to be for.
    refused: BTreeSet<String>,
    /// More frames than this are a backlog.
    backlog: Option<usize>,
    ended: Option<Ended>,
    /// No frame is accepted any longer.
    closed: bool,
    /// The monitor has woken the reader.
    woken: bool,
    reader: Option<Waker>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, state: &mut State) -> Option<ToWorker> {
        if state.has_backlog() {
            self.monitored.notify_one();
        }
        state.frames.pop()
    }

    fn close(&self, keep: usize) {
        let mut state = self.state();
        state.closed = true;
        state.frames.truncate(keep);
        wake_reader(state);
    }
}

/// Frames in their order. The first one has a place here, since an idle worker's only one comes with each heartbeat: it is
/// then in no other memory.
#[derive(Debug, Default)]
struct FrameQueue {
    first: Option<ToWorker>,
    /// Empty without a first.
    others: VecDeque<ToWorker>,
}

impl FrameQueue {
    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    fn push(&mut self, frame: ToWorker) {
        if self.first.is_none() {
            self.first = Some(frame);
        } else {
            self.others.push_back(frame);
        }
    }

    fn pop(&mut self) -> Option<ToWorker> {
        let frame = self.first.take()?;
        self.first = self.others.pop_front();
        // What a burst took is given back.
        if self.first.is_none() && self.others.capacity() > KEPT {
            self.others.shrink_to(KEPT);
        }
        Some(frame)
    }

    /// Keeps so many of the first.
    fn truncate(&mut self, keep: usize) {
        self.others.truncate(keep.saturating_sub(1));
        if keep == 0 {
            self.first = None;
        }
    }
}

/// Readers to be woken, at the latest when this is dropped.
#[derive(Debug, Default)]
pub struct WakeList {
    readers: Vec<Waker>,
    /// How many frames were sent since they were last woken.
    frames: usize,
}

impl WakeList {
    /// How many frames were sent since the readers were last woken.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Wakes all of them.
    pub fn wake_all(&mut self) {
        self.frames = 0;
        self.readers.drain(..).for_each(Waker::wake);
    }
}

impl Drop for WakeList {
    fn drop(&mut self) {
        self.wake_all();
    }
}

/// Wakes the reader, without the lock.
fn wake_reader(mut state: MutexGuard<'_, State>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl OutboxSender {
    /// Sends a frame, and wakes who waits for it. A `Close` is the last, and there is always room for it.
    pub fn send(&self, frame: ToWorker) -> Sent {
        self.push(frame, &mut WakeList::default())
    }

    /// As [`send`](Self::send), but who waits for it is still to be woken: several frames for one worker are then taken
    /// together, and sent in one packet.
    pub fn push(&self, frame: ToWorker, wakes: &mut WakeList) -> Sent {
        let mut state = self.0.state();
        if state.closed || state.ended.is_some() {
            return Sent::Gone;
        }
        if let ToWorker::Close(why) = &frame {
            state.ended = Some(Ended::Closed(why.clone()));
            self.0.monitored.notify_one();
        } else if state.frames.len() >= self.0.most {
            return Sent::Full(frame);
        }
        if let ToWorker::Refused { job, refusal } = &frame
            && refusal.code == Code::PermissionDenied
        {
            state.refused.insert(job.clone());
        }
        let had_backlog = state.has_backlog();
        state.frames.push(frame);
        if state.has_backlog() && !had_backlog {
            self.0.monitored.notify_one();
        }
        wakes.readers.extend(state.reader.take());
        wakes.frames += 1;
        Sent::Queued
    }

    /// How many frames may wait.
    pub fn most(&self) -> usize {
        self.0.most
    }
}

impl Drop for OutboxSender {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if state.ended.is_none() {
            state.ended = Some(Ended::Stopped);
            self.0.monitored.notify_one();
        }
        wake_reader(state);
    }
}

/// What an outbox has.
#[derive(Debug, PartialEq)]
pub enum Taken {
    /// The next frame.
    Frame(ToWorker),
    /// No frame: its monitor has something else for the worker.
    Woken,
    /// Nothing, and there will be no more.
    End,
}

impl Outbox {
    /// Takes what comes next.
    pub fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Taken> {
        let mut state = self.0.state();
        if std::mem::take(&mut state.woken) {
            return Poll::Ready(Taken::Woken);
        }
        match self.0.take(&mut state) {
            Some(frame) => Poll::Ready(Taken::Frame(frame)),
            None if state.closed || state.ended.is_some() => Poll::Ready(Taken::End),
            None => {
                if !state.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
                    state.reader = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// Takes the next frame; `None`: there will be no more.
    pub async fn recv(&mut self) -> Option<ToWorker> {
        loop {
            match std::future::poll_fn(|cx| self.poll_take(cx)).await {
                Taken::Frame(frame) => return Some(frame),
                Taken::Woken => {}
                Taken::End => return None,
            }
        }
    }

    /// Takes a frame that waits.
    pub fn try_recv(&mut self) -> Option<ToWorker> {
        self.0.take(&mut self.0.state())
    }

    /// How many frames may wait.
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// Its monitor, which is woken when more than `backlog` frames wait.
    pub fn monitor(&self, backlog: usize) -> OutboxMonitor {
        self.0.state().backlog = Some(backlog);
        OutboxMonitor(self.0.clone())
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.0.close(0);
    }
}

impl State {
    fn has_backlog(&self) -> bool {
        self.backlog.is_some_and(|backlog| self.frames.len() > backlog)
    }
}

impl OutboxMonitor {
    /// Waits until the driver has ended the frames, a backlog begins, or one of it is taken. May return without cause.
    pub async fn changed(&self) {
        self.0.monitored.notified().await;
    }

    /// How the driver has ended the frames.
    pub fn ended(&self) -> Option<Ended> {
        self.0.state().ended.clone()
    }

    /// Whether more frames wait than the backlog.
    pub fn has_backlog(&self) -> bool {
        self.0.state().has_backlog()
    }

    /// Whether the driver has told the worker that it may not work for this job.
    pub fn has_refused(&self, job: &JobName) -> bool {
        self.0.state().refused.contains(job.as_str())
    }

    /// Wakes whoever takes the frames: there is something else for the worker.
    pub fn wake(&self) {
        let mut state = self.0.state();
        state.woken = true;
        wake_reader(state);
    }
}

impl Drop for OutboxMonitor {
    /// What waits is still taken, as far as it is not a backlog.
    fn drop(&mut self) {
        let keep = self.0.state().backlog.unwrap_or(0);
        self.0.close(keep);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::stream::FuturesUnordered;
    use futures_util::{StreamExt as _, poll};

    use super::*;

    fn ack(sequence: u64) -> ToWorker {
        ToWorker::HeartbeatAck { sequence }
    }

    fn too_slow() -> Refusal {
        Refusal::new(Code::TooSlow, "it does not read")
    }

    /// The frames that are left, taken at once.
    fn drained(outbox: &mut Outbox) -> Vec<ToWorker> {
        std::iter::from_fn(|| outbox.try_recv()).collect()
    }

    #[tokio::test]
    async fn frames_are_taken_in_order_and_wake_who_waits_for_them() {
        let (sender, mut outbox) = outbox(8);
        for sequence in [1, 2] {
            assert_eq!(sender.send(ack(sequence)), Sent::Queued);
        }
        assert_eq!([outbox.recv().await, outbox.recv().await], [Some(ack(1)), Some(ack(2))]);
        let later = async {
            tokio::task::yield_now().await;
            assert_eq!(sender.send(ack(3)), Sent::Queued);
            tokio::task::yield_now().await;
            drop(sender);
        };
        let waits = async { (outbox.recv().await, outbox.recv().await) };
        assert_eq!(tokio::join!(waits, later).0, (Some(ack(3)), None));
    }

    #[test]
    fn a_queue_keeps_the_order_and_the_first_ones() {
        for keep in 0..5 {
            let mut queue = FrameQueue::default();
            for sequence in 1..=3 {
                queue.push(ack(sequence));
            }
            assert_eq!((queue.pop(), queue.len()), (Some(ack(1)), 2));
            queue.push(ack(4));
            queue.truncate(keep);
            assert_eq!(queue.len(), keep.min(3));
            let left: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
            assert_eq!(left, [2, 3, 4].map(ack)[..keep.min(3)]);
            assert_eq!((queue.len(), queue.others.len()), (0, 0));
        }
    }

    #[tokio::test]
    async fn who_waits_is_woken_once_all_frames_are_there_and_at_the_latest_when_the_list_is_dropped() {
        for dropped in [false, true] {
            let (sender, mut outbox) = outbox(8);
            let mut wakes = WakeList::default();
            // Polls what it waits for only after a wake-up.
            let mut waits = FuturesUnordered::from_iter([outbox.recv()]);
            assert!(poll!(waits.next()).is_pending());
            for sequence in [1, 2] {
                assert_eq!(sender.push(ack(sequence), &mut wakes), Sent::Queued);
            }
            assert!(poll!(waits.next()).is_pending());
            if dropped {
                drop(wakes);
            } else {
                wakes.wake_all();
            }
            assert_eq!(poll!(waits.next()), Poll::Ready(Some(Some(ack(1)))));
        }
    }

    #[test]
    fn one_frame_more_than_allowed_comes_back_but_a_close_never_does() {
        let (sender, mut outbox) = outbox(2);
        let sent = [1, 2, 3].map(|sequence| sender.send(ack(sequence)));
        assert_eq!(sent, [Sent::Queued, Sent::Queued, Sent::Full(ack(3))]);
        let close = ToWorker::Close(Some(too_slow()));
        assert_eq!(sender.send(close.clone()), Sent::Queued);
        assert_eq!(sender.send(ack(4)), Sent::Gone, "a Close is the last");
        assert_eq!(drained(&mut outbox), [ack(1), ack(2), close]);
    }

    #[tokio::test]
    async fn the_monitor_hears_of_the_end_however_it_comes() {
        let (sender, receiver) = outbox(8);
        let monitor = receiver.monitor(4);
        let mut changed = pin!(monitor.changed());
        assert!(poll!(&mut changed).is_pending());
        assert_eq!(monitor.ended(), None);
        sender.send(ToWorker::Close(Some(too_slow())));
        assert!(poll!(&mut changed).is_ready());
        drop(sender);
        assert_eq!(monitor.ended(), Some(Ended::Closed(Some(too_slow()))), "what was said first holds");

        let (sender, receiver) = outbox(8);
        let monitor = receiver.monitor(4);
        drop(sender);
        // It did not wait yet.
        monitor.changed().await;
        assert_eq!(monitor.ended(), Some(Ended::Stopped));
    }

    #[tokio::test]
    async fn the_monitor_hears_of_a_backlog_and_of_each_frame_that_is_taken_of_it() {
        let (sender, mut outbox) = outbox(8);
        let monitor = outbox.monitor(2);
        for sequence in [1, 2] {
            sender.send(ack(sequence));
        }
        assert!(poll!(pin!(monitor.changed())).is_pending() && !monitor.has_backlog());
        sender.send(ack(3));
        assert!(poll!(pin!(monitor.changed())).is_ready() && monitor.has_backlog());
        sender.send(ack(4));
        assert!(poll!(pin!(monitor.changed())).is_pending(), "none was taken");
        outbox.try_recv();
        assert!(poll!(pin!(monitor.changed())).is_ready() && monitor.has_backlog());
        outbox.try_recv();
        assert!(poll!(pin!(monitor.changed())).is_ready() && !monitor.has_backlog());
        outbox.try_recv();
        assert!(poll!(pin!(monitor.changed())).is_pending());
    }

    #[tokio::test]
    async fn without_its_monitor_no_frame_is_accepted_and_no_backlog_is_left() {
        let (sender, mut outbox) = outbox(8);
        let monitor = outbox.monitor(2);
        for sequence in 1..=4 {
            sender.send(ack(sequence));
        }
        drop(monitor);
        assert_eq!(sender.send(ack(5)), Sent::Gone);
        assert_eq!(drained(&mut outbox), [ack(1), ack(2)]);
        assert_eq!(outbox.recv().await, None);
        let (sender, outbox) = super::outbox(8);
        drop(outbox);
        assert_eq!(sender.send(ack(1)), Sent::Gone, "nobody takes it");
    }

    #[tokio::test]
    async fn a_wake_up_comes_once_and_before_frames() {
        let (sender, mut outbox) = outbox(8);
        let monitor = outbox.monitor(2);
        let later = async {
            tokio::task::yield_now().await;
            monitor.wake();
        };
        let takes = std::future::poll_fn(|cx| outbox.poll_take(cx));
        assert_eq!(tokio::join!(takes, later).0, Taken::Woken);
        sender.send(ack(1));
        monitor.wake();
        monitor.wake();
        for expected in [Taken::Woken, Taken::Frame(ack(1))] {
            assert_eq!(std::future::poll_fn(|cx| outbox.poll_take(cx)).await, expected);
        }
        sender.send(ack(2));
        monitor.wake();
        assert_eq!(outbox.recv().await, Some(ack(2)), "who only wants frames gets them");
    }

    #[test]
    fn a_job_counts_as_refused_only_if_the_worker_may_not_work_for_it() {
        let (sender, outbox) = outbox(8);
        let monitor = outbox.monitor(2);
        for (job, code) in [("a", Code::PermissionDenied), ("b", Code::ConfigInvalid)] {
            sender.send(ToWorker::Refused { job: job.into(), refusal: Refusal::new(code, "no") });
        }
        let refused = ["a", "b", "c"].map(|job| monitor.has_refused(&JobName::new(job).unwrap()));
        assert_eq!(refused, [true, false, false]);
    }
}
