//! The life of a run in this process: the check before user code, attempts, the ways to stop it, its outcome.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::hand::{Held, Progress, Stage, Why};
use super::words::{Effect, Ended, Now, RunId, Start, UserResult};
use super::{Machine, Request, limits};
use crate::mutants;
use crate::proto::{
    Callback, CallbackDone, Cancel, CancelReason, RunCompleted, RunOutcome, RunProgress, RunStarted, Trigger,
};

/// Runs that begin before anything else is looked at: the user code of the first is not to wait for the last.
const BEGIN_AT_ONCE: usize = 32;

/// What the check before user code found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Check {
    Start,
    /// It is in flight already, which every heartbeat says.
    Drop,
    NotStarted(String),
}

impl Machine {
    pub(super) fn on_trigger(&mut self, now: Now, trigger: Trigger) {
        let Some(id) = trigger.run.clone().map(RunId::from) else { return };
        if mutants::is_on(mutants::TRIGGERS_DROPPED) {
            return;
        }
        if self.hand.highest(&id).is_none_or(|seen| id.token > seen) {
            self.supersede(now, &id);
        }
        let check = self.check(now, &id);
        self.hand.see(&id);
        match check {
            Check::Drop => tracing::debug!(%id, "trigger dropped: the run is in flight"),
            Check::NotStarted(why) => {
                let task = &trigger.task_id;
                tracing::warn!(job = id.job, item = id.item, token = id.token, task, "not started: {why}");
                self.hand.report(RunCompleted {
                    run: Some(id.to_proto()),
                    outcome: RunOutcome::NotStarted.into(),
                    error: why,
                    ended_at: Some(now.wall.into()),
                    attempt: trigger.attempt,
                    ..Default::default()
                });
            }
            Check::Start => self.accept(now, id, trigger),
        }
    }

    /// A higher token says that an older run of the item is not believed any more.
    fn supersede(&mut self, now: Now, id: &RunId) {
        if let Some(older) = self.hand.occupant(id).cloned() {
            self.stop(now, &older, &Why::Fenced(format!("run {} of the item took its place", id.token)));
        }
    }

    /// What must hold before user code starts. That the stream is current was checked when the frame came in.
    pub(super) fn check(&self, now: Now, id: &RunId) -> Check {
        let no = |why: &str| Check::NotStarted(why.to_owned());
        let seen = self.hand.highest(id).filter(|_| !mutants::is_on(mutants::TOKENS_UNCHECKED));
        if self.hand.has(id) && !mutants::is_on(mutants::TOKENS_UNCHECKED) {
            return Check::Drop;
        }
        if let Some(seen) = seen.filter(|seen| id.token <= *seen) {
            // It is over here, or older than what the item has seen. Who asks has to know.
            return Check::NotStarted(format!("a run {seen} of the item was seen already"));
        }
        if !self.lease.valid(now.mono) && !mutants::is_on(mutants::START_WITHOUT_LEASE) {
            return no("the worker's lease is over");
        }
        let occupant = self.hand.occupant(id).filter(|_| !mutants::is_on(mutants::OCCUPIED_ITEMS_START));
        if let Some(other) = occupant {
            return Check::NotStarted(format!("run {} of this item is still in user code", other.token));
        }
        if !self.jobs.serves(&id.job) {
            return no("this worker does not work for the job");
        }
        if self.leave.as_ref().is_some_and(super::Leave::too_late) {
            return no("the worker is leaving and its drain deadline has passed");
        }
        if self.leave.as_ref().is_some_and(super::Leave::said_goodbye) {
            return no("the worker has said goodbye");
        }
        if self.hand.runs.len() >= self.settings.slots as usize {
            return no("every slot of the worker is taken");
        }
        Check::Start
    }

    fn accept(&mut self, now: Now, id: RunId, trigger: Trigger) {
        let starts_in: Option<Duration> = trigger.starts_in.and_then(|starts_in| starts_in.try_into().ok());
        let fire = trigger.fire_time.and_then(|time| SystemTime::try_from(time).ok());
        let until = starts_in
            .filter(|starts_in| !starts_in.is_zero())
            .map(|starts_in| now.mono + self.transit.left(now.mono, fire, starts_in));
        let held = Held {
            stage: until.map_or(Stage::InCode, |until| Stage::Waiting { until }),
            attempt: trigger.attempt.max(1),
            began: now.wall,
            unannounced: None,
            times_out_at: None,
            offset: None,
            processed: 0,
            failed: 0,
            stop: None,
            abort_at: None,
            aborted: false,
            urgent: false,
            disowned: false,
            progress: Progress::default(),
            props: self.jobs.props(&id.job),
            trigger: Arc::new(trigger),
        };
        self.hand.runs.insert(id.clone(), held);
        match until {
            Some(until) => self.hand.wait(until, id),
            None => {
                self.begin(now, &id);
                self.announce(&id);
            }
        }
    }

    /// The run's time has come.
    fn begin(&mut self, now: Now, id: &RunId) {
        let Some(held) = self.hand.runs.get_mut(id) else { return };
        let timeout: Option<Duration> = held.trigger.timeout.and_then(|timeout| timeout.try_into().ok());
        held.times_out_at = timeout.filter(|timeout| !timeout.is_zero()).map(|timeout| now.mono + timeout);
        held.began = now.wall;
        let wakes = held.wakes_at();
        self.hand.wake_at(wakes);
        self.start(now, id);
    }

    /// Lets one attempt into user code.
    fn start(&mut self, now: Now, id: &RunId) {
        let instance_id = self.me.as_ref().map(|me| me.instance_id.clone()).unwrap_or_default();
        let Some(held) = self.hand.runs.get_mut(id) else { return };
        held.stage = Stage::InCode;
        held.unannounced = Some(now.wall);
        let start = Start {
            id: id.clone(),
            attempt: held.attempt,
            trigger: held.trigger.clone(),
            props: held.props.clone(),
            offset: held.offset.clone().unwrap_or_else(|| held.trigger.offset.clone()),
            instance_id,
            timeout: held.times_out_at.map(|at| at.saturating_sub(now.mono)),
        };
        self.effects.push(Effect::Start(start));
    }

    /// Says that user code has begun.
    fn announce(&mut self, id: &RunId) {
        let open = self.link.is_open();
        if let Some(held) = self.hand.runs.get_mut(id).filter(|_| open) {
            self.effects.extend(held.announce(id));
        }
    }

    /// With every heartbeat, what has not been said of runs. Those that begin together, at their time, are announced
    /// here if they have not ended by then: in a burst there is something better to do than to say so.
    pub(super) fn announce_runs(&mut self, now: Now) {
        for (id, held) in &mut self.hand.runs {
            self.effects.extend(held.announce(id));
            self.effects.extend(held.progress.take(now.mono, id));
        }
    }

    pub(super) fn on_ended(&mut self, now: Now, mut ended: Ended) {
        let id = ended.id.clone();
        let Some(held) = self.hand.runs.get_mut(&id) else { return };
        if held.attempt != ended.attempt || held.stage != Stage::InCode {
            return;
        }
        held.offset = ended.offset.take().or(held.offset.take());
        held.processed = held.processed.saturating_add(ended.processed);
        held.failed = held.failed.saturating_add(ended.failed);
        let may_retry = matches!(&ended.result, UserResult::Failed { retry: true, .. });
        if may_retry && held.stop.is_none() && held.attempt < held.trigger.max_attempts {
            held.stage = Stage::Backoff { until: now.mono + pause_after(&held.trigger, held.attempt) };
            let (attempt, task) = (held.attempt, &held.trigger.task_id);
            tracing::warn!(%id, attempt, task, "attempt failed, another follows: {:?}", ended.result);
            let wakes = held.wakes_at();
            self.hand.wake_at(wakes);
            return;
        }
        self.hand.finish(now, &id, Some(ended));
    }

    pub(super) fn runs_due(&mut self, now: Now) {
        for _ in 0..BEGIN_AT_ONCE {
            let Some(id) = self.hand.take_due(now.mono) else { break };
            self.begin(now, &id);
        }
        if self.hand.wakes_at().is_none_or(|at| now.mono < at) {
            return;
        }
        let due = self.hand.runs.iter().filter(|(_, held)| held.wakes_at().is_some_and(|at| now.mono >= at));
        let due: Vec<RunId> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            let Some(held) = self.hand.runs.get_mut(&id) else { continue };
            if held.stop.is_none() && held.times_out_at.is_some_and(|at| now.mono >= at) {
                self.stop(now, &id, &Why::TimedOut);
                continue;
            }
            if held.abort_at.is_some_and(|at| now.mono >= at) {
                held.abort_at = None;
                held.aborted = true;
                self.effects.push(Effect::Abort(id));
                continue;
            }
            if matches!(held.stage, Stage::Backoff { until } if now.mono >= until) {
                held.attempt += 1;
                self.start(now, &id);
                self.announce(&id);
            }
        }
        self.hand.look_when();
    }

    pub(super) fn on_cancel(&mut self, now: Now, cancel: Cancel) {
        let reason = cancel.reason();
        let Some(id) = cancel.run.map(RunId::from) else { return };
        let why = match reason {
            CancelReason::Fenced => Why::Fenced(cancel.message),
            CancelReason::TimedOut => Why::TimedOut,
            CancelReason::Operator | CancelReason::Unspecified => Why::Operator(cancel.message),
        };
        self.stop(now, &id, &why);
    }

    pub(super) fn stop_all(&mut self, now: Now, why: &Why) {
        // Those that were told so before have nothing new to hear.
        let told = |held: &Held| held.urgent || held.stop.as_ref() == Some(why);
        let untold = self.hand.runs.iter().filter(|(_, held)| !told(held));
        let untold: Vec<RunId> = untold.map(|(id, _)| id.clone()).collect();
        for id in untold {
            self.stop(now, &id, why);
        }
    }

    /// Tells a run to stop. The first reason stays, unless another run has taken its place; a more urgent one makes it
    /// sooner.
    fn stop(&mut self, now: Now, id: &RunId, why: &Why) {
        let grace = if why.urgent() { self.lease.budget() } else { self.settings.stop_grace };
        let Some(held) = self.hand.runs.get_mut(id) else { return };
        let first = held.stop.is_none();
        held.urgent |= why.urgent();
        let fenced = |why: &Why| matches!(why, Why::Fenced(_));
        if first || fenced(why) && !held.stop.as_ref().is_some_and(fenced) {
            held.stop = Some(why.clone());
            let task = &held.trigger.task_id;
            tracing::warn!(
                job = id.job,
                item = id.item,
                token = id.token,
                task,
                "run stopped: {}",
                why.text()
            );
        }
        if held.stage != Stage::InCode {
            return self.hand.finish(now, id, None);
        }
        if !held.aborted && (first || why.urgent()) {
            let at = now.mono + grace;
            held.abort_at = Some(held.abort_at.map_or(at, |before| before.min(at)));
            self.hand.wake_at(Some(at));
        }
        if first {
            self.effects.push(Effect::Cancel(id.clone()));
        }
    }

    /// The identity under which the runs were started is dead.
    pub(super) fn disown_all(&mut self, now: Now) {
        self.hand.disown();
        self.stop_all(now, &Why::Fenced("the worker was marked dead".into()));
    }

    pub(super) fn on_progress(&mut self, now: Now, id: &RunId, percent: u32, message: String) {
        let Some(held) = self.hand.runs.get_mut(id) else { return };
        held.progress.latest = (percent.min(100), limits::cut(message, limits::PROGRESS_BYTES));
        held.progress.waits = true;
        if self.link.is_open() {
            self.effects.extend(held.progress.take(now.mono, id));
        }
    }

    pub(super) fn on_offset(&mut self, now: Now, id: &RunId, offset: Bytes) {
        let Some(held) = self.hand.runs.get_mut(id) else { return };
        held.progress.offset = Some(offset);
        held.progress.offset_waits = true;
        held.progress.offset_at.get_or_insert(now.mono);
        if self.link.is_open() {
            self.effects.extend(held.progress.take(now.mono, id));
        }
    }

    /// Another coordinator may not know how far runs have come.
    pub(super) fn say_offsets_again(&mut self) {
        for held in self.hand.runs.values_mut() {
            held.progress.offset_waits |= held.progress.offset.is_some();
        }
    }

    pub(super) fn on_callback(&mut self, now: Now, callback: Callback) {
        if self.callbacks.contains_key(&callback.callback_id) {
            return;
        }
        if let Some(done) = self.answered.iter().find(|done| done.callback_id == callback.callback_id) {
            return self.send(Request::CallbackDone(done.clone()));
        }
        if self.callbacks.len() >= self.settings.slots as usize {
            let error = "too many callbacks at a time: as many as slots are taken".into();
            let callback_id = callback.callback_id;
            return self.send(Request::CallbackDone(CallbackDone { callback_id, error, timed_out: false }));
        }
        let timeout: Option<Duration> = callback.timeout.and_then(|timeout| timeout.try_into().ok());
        let until = timeout.filter(|timeout| !timeout.is_zero()).map(|timeout| now.mono + timeout);
        self.callbacks.insert(callback.callback_id.clone(), until);
        self.effects.push(Effect::StartCallback(callback));
    }

    pub(super) fn on_callback_ended(&mut self, callback_id: String, error: String) {
        self.answer(CallbackDone { callback_id, error, timed_out: false });
    }

    fn answer(&mut self, mut done: CallbackDone) {
        if self.callbacks.remove(&done.callback_id).is_none() {
            return;
        }
        done.error = limits::cut(done.error, limits::ERROR_BYTES);
        self.answered.push_back(done.clone());
        if self.answered.len() > limits::CALLBACKS_REMEMBERED {
            self.answered.pop_front();
        }
        if self.link.is_open() {
            self.send(Request::CallbackDone(done));
        } else {
            self.answers.push(done);
        }
    }

    pub(super) fn callbacks_due(&mut self, now: Now) {
        let over = self.callbacks.iter().filter(|(_, until)| until.is_some_and(|until| now.mono >= until));
        let over: Vec<String> = over.map(|(id, _)| id.clone()).collect();
        for callback_id in over {
            self.stop_callback(callback_id, "the callback took longer than its timeout", true);
        }
    }

    /// The drain deadline is theirs too.
    pub(super) fn stop_callbacks(&mut self) {
        let all: Vec<String> = self.callbacks.keys().cloned().collect();
        for callback_id in all {
            self.stop_callback(callback_id, "the worker left before the callback had ended", false);
        }
    }

    fn stop_callback(&mut self, callback_id: String, why: &str, timed_out: bool) {
        self.effects.push(Effect::StopCallback { callback_id: callback_id.clone() });
        self.answer(CallbackDone { callback_id, error: why.into(), timed_out });
    }
}

/// The pause after attempt number `attempt` has failed.
pub(super) fn pause_after(trigger: &Trigger, attempt: u32) -> Duration {
    let span = |told: Option<prost_types::Duration>| told.and_then(|span| Duration::try_from(span).ok());
    let factor = trigger.retry_backoff_multiplier.max(1).saturating_pow(attempt.saturating_sub(1));
    let pause = span(trigger.retry_backoff).unwrap_or_default().saturating_mul(factor);
    pause.min(span(trigger.retry_backoff_max).unwrap_or(Duration::MAX))
}

/// Progress of one run goes out at most this often; the latest wins.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

impl Progress {
    /// What may be said now.
    fn take(&mut self, now: Duration, id: &RunId) -> Option<Effect> {
        if self.sent_at.is_some_and(|at| now < at + PROGRESS_EVERY) {
            return None;
        }
        // A run that is over sooner says how far it has come with its end alone.
        let settled = self.offset_at.is_some_and(|at| now >= at + PROGRESS_EVERY);
        if !(self.waits || self.offset_waits && settled) {
            return None;
        }
        (self.waits, self.offset_waits) = (false, false);
        self.sent_at = Some(now);
        let ((percent, message), offset) = (self.latest.clone(), self.offset.clone());
        let progress = RunProgress { run: Some(id.to_proto()), percent, message, offset };
        Some(Effect::Send(Request::RunProgress(progress)))
    }
}

impl Held {
    /// What says that user code has begun, once for each attempt.
    fn announce(&mut self, id: &RunId) -> Option<Effect> {
        if self.stage != Stage::InCode {
            return None;
        }
        let (run, started_at) = (Some(id.to_proto()), Some(self.unannounced.take()?.into()));
        Some(Effect::Send(Request::RunStarted(RunStarted { run, started_at, attempt: self.attempt })))
    }

    /// Whether user code was never called, for all that it was let begin: the last look was against its first attempt.
    pub(super) fn never_began(&self, ended: Option<&Ended>) -> bool {
        let not_begun = ended.is_some_and(|ended| ended.result == UserResult::NotBegun);
        not_begun && self.attempt == self.trigger.attempt.max(1)
    }

    /// When time alone has something for this run.
    pub(super) fn wakes_at(&self) -> Option<Duration> {
        let backoff = match self.stage {
            Stage::Backoff { until } => Some(until),
            // Those that wait for their time are kept by it.
            Stage::InCode | Stage::Waiting { .. } => None,
        };
        let times_out_at = self.times_out_at.filter(|_| self.stop.is_none());
        [backoff, times_out_at, self.abort_at].into_iter().flatten().min()
    }
}
