//! The async half: owns time and I/O, feeds the machine and performs its effects. Decides nothing.
//!
//! Every wait is biased and in one fixed order, so the same events give the same conversation.

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
use crate::connect::{Connector, Wire};
use crate::link_error::LinkError;
use crate::machine::types::{Clocks, Effect, Exit, MachineEvent};
use crate::machine::{Machine, proves_lease};
use crate::proto::{SessionRequest, session_request};
use crate::user::{Says, UserCode};

/// Frames that may wait for a coordinator that does not read. Beyond that the worker abandons the stream: it is as good
/// as dead.
const OUTBOX: usize = 16 * 1024;

/// Frames that are handled before ended runs have their turn.
const FRAMES: u32 = 256;

/// A timer that is this late was not only delayed by a busy machine: the process was frozen.
const STOOD_STILL: Duration = Duration::from_millis(100);

/// Frames that wait in the socket by then are read within this time.
const MOMENT: Duration = Duration::from_millis(25);

/// This many events at once are a burst.
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
    mut orders: BoxStream<'static, MachineEvent>,
) -> Exit {
    let mut line = Line::None;
    let mut event = MachineEvent::Tick;
    // Frames since the ends were last checked.
    let mut frames = 0;
    let mut alarm = Alarm::new(clock.clone());
    // Events since the process resumed after a freeze.
    let mut waited: VecDeque<MachineEvent> = VecDeque::new();
    loop {
        if waited.is_empty() && clock.now() > machine.deadline().saturating_add(STOOD_STILL) {
            waited = line.what_waited(event, &*clock).await;
            event = waited.pop_front().unwrap_or(MachineEvent::Tick);
        }
        let now = Clocks { mono: clock.now(), wall: clock.wall() };
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
            // User code that must begin has its turn before more is collected: on this runtime, and on the processor.
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
                () = alarm.at(machine.deadline()) => MachineEvent::Tick,
            }
        };
        frames += u32::from(matches!(event, MachineEvent::Frame { .. }));
        user.over(&event);
    }
}

/// A run that has ended, when these have their turn. Starts come first, so that in a burst the last run starts soon,
/// too; but a flood of frames does not hold a report back for long.
fn ended(frames: &mut u32, ends: &mut mpsc::UnboundedReceiver<MachineEvent>) -> Option<MachineEvent> {
    let end = if *frames < FRAMES { None } else { ends.try_recv().ok() };
    if end.is_none() {
        *frames %= FRAMES;
    }
    end
}

/// A timer that is kept while its deadline stays the same: each frame would create a new one otherwise.
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

    fn stalled(&self) -> Option<MachineEvent> {
        match self {
            Self::Up { connection, outbox, .. } if outbox.len() > OUTBOX => Some(MachineEvent::Closed {
                connection: *connection,
                error: LinkError::lost("the coordinator does not read"),
            }),
            _ => None,
        }
    }

    /// Events that were read within a moment, after `first`. An acknowledgement is handled before everything else that
    /// arrived meanwhile, timers included.
    async fn what_waited(&mut self, first: MachineEvent, clock: &impl Clock) -> VecDeque<MachineEvent> {
        let until = clock.now() + MOMENT;
        let mut events = vec![first];
        // A stream sends nothing after its end, which may be the first event.
        let goes_on = |events: &[MachineEvent]| !matches!(events.last(), Some(MachineEvent::Closed { .. }));
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

    /// The next event of the network; never returns without a network.
    async fn event(&mut self) -> MachineEvent {
        match self {
            Self::None => std::future::pending().await,
            Self::Dialing { connection, dialing } => {
                let connection = *connection;
                match dialing.await {
                    Ok(wire) => {
                        *self = Self::Up { connection, wire, outbox: VecDeque::new(), deaf: false };
                        MachineEvent::Connected { connection }
                    }
                    Err(error) => {
                        *self = Self::None;
                        MachineEvent::Closed { connection, error }
                    }
                }
            }
            Self::Up { connection, wire, outbox, deaf } => loop {
                tokio::select! {
                    biased;
                    permit = wire.requests.reserve(), if !outbox.is_empty() => match permit {
                        Ok(permit) => if let Some(frame) = outbox.pop_front() { permit.send(frame) },
                        // The responses show why.
                        Err(_) => { *deaf = true; outbox.clear(); }
                    },
                    frame = wire.responses.next() => {
                        let connection = *connection;
                        let frame = match frame {
                            Some(Ok(response)) => response.frame,
                            Some(Err(error)) => return MachineEvent::Closed { connection, error },
                            None => return MachineEvent::Closed { connection, error: LinkError::lost("the stream ended") },
                        };
                        // A frame of a later version only counts as a sign of life.
                        return frame.map_or(MachineEvent::Tick, |frame| MachineEvent::Frame { connection, frame });
                    }
                }
            },
        }
    }
}
