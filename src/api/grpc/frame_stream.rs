//! The body of the answer to a worker: its frames, then the end of the stream. It takes a frame from the coordinator when the
//! worker has room for it, without another queue in between.

use std::collections::VecDeque;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use rosterd_coordinator::handle::{Outbox, Taken};
use rosterd_wire::convert;
use rosterd_wire::proto::v1::SessionResponse;
use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;
use tonic::Status;

/// How a stream ended; `Ok`: orderly, or the worker is gone.
pub(super) type End = Result<(), Status>;

/// Answers of the edge itself, at most so many.
#[derive(Debug)]
pub(super) struct Answers {
    most: usize,
    queue: Mutex<VecDeque<SessionResponse>>,
}

impl Answers {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, queue: Mutex::default() })
    }

    /// Whether there was room for it.
    pub(super) fn push(&self, answer: SessionResponse) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = queue.len() < self.most;
        if has_room {
            queue.push_back(answer);
        }
        has_room
    }

    fn pop(&self) -> Option<SessionResponse> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The frames of the coordinator.
enum Frames {
    /// The stream's task waits for Hello.
    Awaited(oneshot::Receiver<Outbox>),
    Open(Outbox),
    Ended,
}

/// The frames for a worker, then the end of the stream.
pub struct FrameStream {
    frames: Frames,
    answers: Arc<Answers>,
    /// There may be answers.
    woken: bool,
    ended: oneshot::Receiver<End>,
    _gone: DropGuard,
}

impl FrameStream {
    /// `gone` is dropped with the stream: nobody reads it any longer.
    pub(super) fn new(
        frames: oneshot::Receiver<Outbox>,
        answers: Arc<Answers>,
        ended: oneshot::Receiver<End>,
        gone: DropGuard,
    ) -> Self {
        Self { frames: Frames::Awaited(frames), answers, woken: false, ended, _gone: gone }
    }

    /// The next frame, or answer of the edge; `None`: there will be no more.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<SessionResponse>> {
        loop {
            if self.woken {
                match self.answers.pop() {
                    Some(answer) => return Poll::Ready(Some(answer)),
                    None => self.woken = false,
                }
            }
            match &mut self.frames {
                Frames::Awaited(frames) => {
                    self.frames = match ready!(Pin::new(frames).poll(cx)) {
                        Ok(outbox) => Frames::Open(outbox),
                        Err(_) => Frames::Ended,
                    };
                }
                Frames::Open(outbox) => match ready!(outbox.poll_take(cx)) {
                    Taken::Frame(frame) => match convert::to_worker(frame) {
                        Ok(frame) => return Poll::Ready(Some(frame)),
                        // The Close, the last: the stream's task says how the stream ends.
                        Err(_) => self.frames = Frames::Ended,
                    },
                    Taken::Woken => self.woken = true,
                    Taken::End => self.frames = Frames::Ended,
                },
                Frames::Ended => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for FrameStream {
    type Item = Result<SessionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(frame) = ready!(self.poll_frame(cx)) {
            return Poll::Ready(Some(Ok(frame)));
        }
        if self.ended.is_terminated() {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(Pin::new(&mut self.ended).poll(cx)) {
            Ok(Ok(())) => None,
            Ok(Err(status)) => Some(Err(status)),
            // Its task panicked, which its owner has counted and logged.
            Err(_) => Some(Err(Status::internal("the stream was lost to a defect: connect again"))),
        })
    }
}
