//! The async half: owns time and I/O, feeds the machine and does what it says. Decides nothing.
//!
//! Every wait is biased and in one fixed order, so that the same events give the same conversation.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::connect::{Connector, LinkError, Wire};
use crate::machine::words::{Effect, Event, Exit, Now};
use crate::machine::{Machine, proves_lease};
use crate::proto::{SessionRequest, session_request};
use crate::user::{Says, UserCode};

/// Frames that may wait for a coordinator which does not read. More, and the stream is left: it is as good as dead.
const OUTBOX: usize = 16 * 1024;

/// Frames that are taken in before it is the turn of what has ended.
const FRAMES: u32 = 256;

/// A timer that is so late was not kept waiting by a busy machine alone: the process stood still.
const STOOD_STILL: Duration = Duration::from_millis(100);

/// What waits in the socket by then is read within this.
const MOMENT: Duration = Duration::from_millis(25);

/// So much to do at once is a burst.
const MANY: usize = 16;

type Dialing = Pin<Box<dyn Future<Output = Result<Wire, LinkError>> + Send>>;

enum Line {
    None,
    Dialing { connection: u64, dialing: Dialing },
    Up { connection: u64, wire: Wire, outbox: VecDeque<SessionRequest>, deaf: bool },
}

/// Runs one worker until it exits. `orders` are Leave and Kill from outside.
pub(crate) async fn drive<C: Connector, K: Clock>(
    mut machine: Machine,
    connector: C,
    clock: Arc<K>,
    mut user: UserCode,
    mut says: Says,
    mut orders: BoxStream<'static, Event>,
) -> Exit {
    let mut line = Line::None;
    let mut event = Event::Tick;
    // Frames since the ends were looked at.
    let mut frames = 0;
    let mut alarm = Alarm::new(clock.clone());
    // What came since the process went on after it stood still.
    let mut waited: VecDeque<Event> = VecDeque::new();
    loop {
        if waited.is_empty() && clock.now() > machine.deadline().saturating_add(STOOD_STILL) {
            waited = line.what_waited(event, &*clock).await;
            event = waited.pop_front().unwrap_or(Event::Tick);
        }
        let now = Now { mono: clock.now(), wall: clock.wall() };
        let effects = machine.handle(now, event);
        user.lease(machine.lease_end(), machine.lease_over(), machine.is_leaving());
        for news in machine.take_news() {
            user.news(&news);
        }
        let many = effects.len() >= MANY;
        for effect in effects {
            match effect {
                Effect::Connect { connection, address } => {
                    tracing::debug!(address, "connecting");
                    line = Line::Dialing { connection, dialing: Box::pin(connector.connect(&address)) };
                }
                Effect::Close { .. } => line = Line::None,
                Effect::Send(frame) => line.queue(frame),
                Effect::Start(start) => user.start(start, now.wall),
                Effect::Cancel(id) => user.cancel(&id),
                Effect::Abort(id) => user.abort(&id),
                Effect::StartCallback(callback) => user.start_callback(&callback),
                Effect::StopCallback { callback_id } => user.stop_callback(&callback_id),
                Effect::Exit(exit) => return exit,
            }
        }
        if many {
            // User code that is to begin has its turn before more of it is looked for: on this runtime, and on the
            // processor.
            tokio::task::yield_now().await;
            std::thread::yield_now();
        }
        event = if let Some(before) = waited.pop_front() {
            before
        } else if let Some(end) = ended(&mut frames, &mut says.ends) {
            end
        } else if let Some(stalled) = line.stalled() {
            stalled
        } else {
            tokio::select! {
                biased;
                Some(order) = orders.next() => order,
                event = line.event() => event,
                Some(end) = says.ends.recv() => end,
                Some(said) = says.chatter.recv() => said,
                () = alarm.at(machine.deadline()) => Event::Tick,
            }
        };
        frames += u32::from(matches!(event, Event::Frame { .. }));
        user.over(&event);
    }
}

/// A run that has ended, when these have their turn. What is to start goes before, so that in a burst the last one starts soon
/// too; but a flood of frames holds no report back for long.
fn ended(frames: &mut u32, ends: &mut mpsc::UnboundedReceiver<Event>) -> Option<Event> {
    let end = if *frames < FRAMES { None } else { ends.try_recv().ok() };
    if end.is_none() {
        *frames %= FRAMES;
    }
    end
}

/// A timer that is kept as long as its time stays: a short one is not made anew with every frame.
struct Alarm<K> {
    clock: Arc<K>,
    set: Option<(Duration, BoxFuture<'static, ()>)>,
}

impl<K: Clock> Alarm<K> {
    fn new(clock: Arc<K>) -> Self {
        Self { clock, set: None }
    }

    async fn at(&mut self, time: Duration) {
        if self.set.as_ref().is_none_or(|(set, _)| *set != time) {
            let clock = self.clock.clone();
            self.set = Some((time, Box::pin(async move { clock.sleep_until(time).await })));
        }
        if let Some((_, sleep)) = &mut self.set {
            sleep.await;
        }
        self.set = None;
    }
}

impl Line {
    fn queue(&mut self, frame: session_request::Frame) {
        if let Self::Up { wire, outbox, deaf: false, .. } = self {
            outbox.push_back(SessionRequest { frame: Some(frame) });
            while let Some(frame) = outbox.pop_front() {
                if let Err(mpsc::error::TrySendError::Full(frame)) = wire.requests.try_send(frame) {
                    outbox.push_front(frame);
                    break;
                }
            }
        }
    }

    fn stalled(&self) -> Option<Event> {
        match self {
            Self::Up { connection, outbox, .. } if outbox.len() > OUTBOX => Some(Event::Closed {
                connection: *connection,
                error: LinkError::lost("the coordinator does not read"),
            }),
            _ => None,
        }
    }

    /// What was read within a moment, after `first`. An acknowledgement counts before whatever came meanwhile, timers included.
    async fn what_waited(&mut self, first: Event, clock: &impl Clock) -> VecDeque<Event> {
        let until = clock.now() + MOMENT;
        let mut events = vec![first];
        // Nothing comes of a stream after its end, which may be the first.
        let goes_on = |events: &[Event]| !matches!(events.last(), Some(Event::Closed { .. }));
        while matches!(self, Self::Up { .. })
            && goes_on(&events)
            && events.len() < FRAMES as usize
            && clock.now() < until
        {
            tokio::select! {
                biased;
                event = self.event() => events.push(event),
                () = clock.sleep_until(until) => {}
            }
        }
        let (proofs, others): (Vec<_>, Vec<_>) = events.into_iter().partition(proves_lease);
        proofs.into_iter().chain(others).collect()
    }

    /// What the network has to say; never ends while there is no network to listen to.
    async fn event(&mut self) -> Event {
        match self {
            Self::None => std::future::pending().await,
            Self::Dialing { connection, dialing } => {
                let connection = *connection;
                match dialing.await {
                    Ok(wire) => {
                        *self = Self::Up { connection, wire, outbox: VecDeque::new(), deaf: false };
                        Event::Connected { connection }
                    }
                    Err(error) => {
                        *self = Self::None;
                        Event::Closed { connection, error }
                    }
                }
            }
            Self::Up { connection, wire, outbox, deaf } => loop {
                tokio::select! {
                    biased;
                    permit = wire.requests.reserve(), if !outbox.is_empty() => match permit {
                        Ok(permit) => if let Some(frame) = outbox.pop_front() { permit.send(frame) },
                        // The responses tell why.
                        Err(_) => { *deaf = true; outbox.clear(); }
                    },
                    frame = wire.responses.next() => {
                        let connection = *connection;
                        let frame = match frame {
                            Some(Ok(response)) => response.frame,
                            Some(Err(error)) => return Event::Closed { connection, error },
                            None => return Event::Closed { connection, error: LinkError::lost("the stream ended") },
                        };
                        // A frame of a later version counts as a sign of life, and as nothing else.
                        return frame.map_or(Event::Tick, |frame| Event::Frame { connection, frame });
                    }
                }
            },
        }
    }
}
