//! The callbacks of one job in flight.

use rosterd_domain::id::Token;
use rosterd_domain::item::Running;
use rosterd_domain::job::OnTimeout;
use rosterd_domain::plan::{Report, Reported};
use rosterd_domain::snapshot::Stage;
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::view::Job;

use crate::io::event::StreamId;

/// The callbacks of one job in flight.
#[derive(Debug, Default)]
pub(crate) struct Guarantee {
    started: Option<Calling>,
    completed: Option<Calling>,
    /// Until when items of a fire that have not started are awaited.
    waits: Option<(Time, Mono)>,
}

#[derive(Debug)]
pub(crate) struct Calling {
    id: String,
    /// The stream on which it was sent; `None`: the instance cannot be reached from here now.
    stream: Option<StreamId>,
    until: Mono,
    answered: bool,
    /// It timed out without an answer.
    timed_out: bool,
    /// How many items' mirrors were removed since it was answered.
    cleared: u32,
}

impl Calling {
    /// Creates a callback that times out at `until`, sent on `stream` if the instance can be reached from here.
    pub(crate) fn new(id: String, stream: Option<StreamId>, until: Mono) -> Self {
        Self { id, stream, until, answered: false, timed_out: false, cleared: 0 }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The stream on which it was sent; `None`: the instance cannot be reached from here now.
    pub(crate) fn stream(&self) -> Option<StreamId> {
        self.stream
    }

    pub(crate) fn until(&self) -> Mono {
        self.until
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Whether the callback has this id, was sent on this stream and is not answered.
    pub(crate) fn is_asked(&self, id: &str, stream: StreamId) -> bool {
        self.id == id && !self.answered && self.stream == Some(stream)
    }

    /// The callback was answered, or `timed_out`.
    pub(crate) fn end(&mut self, timed_out: bool) {
        (self.answered, self.timed_out) = (true, timed_out);
    }

    /// Returns how many items' mirrors were removed since the callback was answered.
    pub(crate) fn cleared(&self) -> u32 {
        self.cleared
    }

    pub(crate) fn clear(&mut self, items: u32) {
        self.cleared = items;
    }
}

impl Guarantee {
    /// Whether the fire that is being announced is skipped, because it timed out.
    pub(crate) fn skips(&self, view: &Job) -> bool {
        let timed_out = self.started.as_ref().is_some_and(|calling| calling.timed_out);
        timed_out && view.spec.policy().guarantee.on_timeout == OnTimeout::Skip
    }

    /// Whether a worker here is being called: its answer comes to this coordinator.
    pub(crate) fn is_asking(&self) -> bool {
        let all = [&self.started, &self.completed];
        all.into_iter().flatten().any(|calling| calling.stream.is_some() && !calling.answered)
    }

    /// Returns until when items of the fire that have not started are awaited, and whether that wait starts now.
    /// `until`: the end of a wait that starts now.
    pub(crate) fn wait_until(&mut self, fire: Time, until: Mono) -> (Mono, bool) {
        let known = self.waits.filter(|(of, _)| *of == fire);
        let (_, until) = *self.waits.insert(known.unwrap_or((fire, until)));
        (until, known.is_none())
    }

    pub(crate) fn of(&mut self, stage: Stage) -> &mut Option<Calling> {
        match stage {
            Stage::Started => &mut self.started,
            Stage::Completed => &mut self.completed,
        }
    }

    pub(crate) fn any(&mut self, is: impl Fn(&Calling) -> bool) -> Option<(Stage, &mut Calling)> {
        let all = [(Stage::Started, &mut self.started), (Stage::Completed, &mut self.completed)];
        all.into_iter().find_map(|(stage, calling)| Some((stage, calling.as_mut().filter(|c| is(c))?)))
    }
}

/// The report that ends a held run as cancelled, unless it is released first.
pub(crate) fn skipped(run: &Running, token: Token) -> Report {
    Report { token, worker: run.worker.clone(), ended: Reported::Skipped, offset: None }
}
