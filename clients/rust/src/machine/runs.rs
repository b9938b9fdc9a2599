//! The life of a run in this process: the check before user code, attempts, the ways to stop it, its outcome.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::in_flight::{InFlightRun, Progress, Stage, Why};
use super::types::{Clocks, Effect, Ended, RunId, Start, UserResult};
use super::{Machine, Request, limits};
use crate::mutants;
use crate::proto::{
    Callback, CallbackDone, Cancel, CancelReason, RunCompleted, RunOutcome, RunProgress, RunStarted, Trigger,
};

/// How many runs begin before other work gets a turn: the user code of the first must not wait for the last.
const BEGIN_AT_ONCE: usize = 32;

/// The result of the check before user code.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Check {
    Start,
    /// It is in flight already, which every heartbeat says.
    Drop,
    NotStarted(String),
}

impl Machine {
    pub(super) fn on_trigger(&mut self, now: Clocks, trigger: Trigger) {
        let Some(id) = trigger.run.clone().map(RunId::from) else { return };
        if mutants::is_on(mutants::TRIGGERS_DROPPED) {
            return;
        }
        if self.in_flight.highest(&id).is_none_or(|seen| id.token > seen) {
            self.supersede(now, &id);
        }
        let check = self.check(now, &id);
        self.in_flight.see(&id);
        match check {
            Check::Drop => tracing::debug!(%id, "trigger dropped: the run is in flight"),
            Check::NotStarted(why) => {
                let task = &trigger.task_id;
                tracing::warn!(job = id.job, item = id.item, token = id.token, task, "not started: {why}");
                self.in_flight.report(RunCompleted {
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

    /// A higher token means that reports of an older run of the item are no longer accepted.
    fn supersede(&mut self, now: Clocks, id: &RunId) {
        if let Some(older) = self.in_flight.occupant(id).cloned() {
            self.stop(now, &older, &Why::Fenced(format!("run {} of the item took its place", id.token)));
        }
    }

    /// What must hold before user code starts. The stream was checked when the frame arrived.
    pub(super) fn check(&self, now: Clocks, id: &RunId) -> Check {
        let no = |why: &str| Check::NotStarted(why.to_owned());
        let seen = self.in_flight.highest(id).filter(|_| !mutants::is_on(mutants::TOKENS_UNCHECKED));
        if self.in_flight.has(id) && !mutants::is_on(mutants::TOKENS_UNCHECKED) {
            return Check::Drop;
        }
        if let Some(seen) = seen.filter(|seen| id.token <= *seen) {
            // The run is over here, or older than one that the item has seen. The coordinator must know.
            return Check::NotStarted(format!("a run {seen} of the item was seen already"));
        }
        if !self.lease.valid(now.mono) && !mutants::is_on(mutants::START_WITHOUT_LEASE) {
            return no("the worker's lease is over");
        }
        let occupant = self.in_flight.occupant(id).filter(|_| !mutants::is_on(mutants::OCCUPIED_ITEMS_START));
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
        if self.in_flight.runs.len() >= self.settings.slots as usize {
            return no("every slot of the worker is taken");
        }
        Check::Start
    }

    fn accept(&mut self, now: Clocks, id: RunId, trigger: Trigger) {
        let starts_in: Option<Duration> = trigger.starts_in.and_then(|starts_in| starts_in.try_into().ok());
        let fire = trigger.fire_time.and_then(|time| SystemTime::try_from(time).ok());
        let until = starts_in
            .filter(|starts_in| !starts_in.is_zero())
            .map(|starts_in| now.mono + self.one_way_delay.remaining_wait(now.mono, fire, starts_in));
        let run = InFlightRun {
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
        self.in_flight.runs.insert(id.clone(), run);
        match until {
            Some(until) => self.in_flight.wait(until, id),
            None => {
                self.begin(now, &id);
                self.announce(&id);
            }
        }
    }

    /// The run's time has come.
    fn begin(&mut self, now: Clocks, id: &RunId) {
        let Some(run) = self.in_flight.runs.get_mut(id) else { return };
        let timeout: Option<Duration> = run.trigger.timeout.and_then(|timeout| timeout.try_into().ok());
        run.times_out_at = timeout.filter(|timeout| !timeout.is_zero()).map(|timeout| now.mono + timeout);
        run.began = now.wall;
        let wakes = run.wakes_at();
        self.in_flight.wake_at(wakes);
        self.start(now, id);
    }

    /// Lets one attempt into user code.
    fn start(&mut self, now: Clocks, id: &RunId) {
        let instance_id = self.me.as_ref().map(|me| me.instance_id.clone()).unwrap_or_default();
        let Some(run) = self.in_flight.runs.get_mut(id) else { return };
        run.stage = Stage::InCode;
        run.unannounced = Some(now.wall);
        let start = Start {
            id: id.clone(),
            attempt: run.attempt,
            trigger: run.trigger.clone(),
            props: run.props.clone(),
            offset: run.offset.clone().unwrap_or_else(|| run.trigger.offset.clone()),
            instance_id,
            timeout: run.times_out_at.map(|at| at.saturating_sub(now.mono)),
        };
        self.effects.push(Effect::Start(start));
    }

    /// Reports that user code has begun.
    fn announce(&mut self, id: &RunId) {
        let open = self.link.is_open();
        if let Some(run) = self.in_flight.runs.get_mut(id).filter(|_| open) {
            self.effects.extend(run.announce(id));
        }
    }

    /// With every heartbeat, announces what is not announced yet. Runs that begin together, at their time, are
    /// announced here if they have not ended by then: in a burst, starting runs comes first.
    pub(super) fn announce_runs(&mut self, now: Clocks) {
        for (id, run) in &mut self.in_flight.runs {
            self.effects.extend(run.announce(id));
            self.effects.extend(run.progress.take(now.mono, id));
        }
    }

    pub(super) fn on_ended(&mut self, now: Clocks, mut ended: Ended) {
        let id = ended.id.clone();
        let Some(run) = self.in_flight.runs.get_mut(&id) else { return };
        if run.attempt != ended.attempt || run.stage != Stage::InCode {
            return;
        }
        run.offset = ended.offset.take().or(run.offset.take());
        run.processed = run.processed.saturating_add(ended.processed);
        run.failed = run.failed.saturating_add(ended.failed);
        let may_retry = matches!(&ended.result, UserResult::Failed { retry: true, .. });
        if may_retry && run.stop.is_none() && run.attempt < run.trigger.max_attempts {
            run.stage = Stage::Backoff { until: now.mono + pause_after(&run.trigger, run.attempt) };
            let (attempt, task) = (run.attempt, &run.trigger.task_id);
            tracing::warn!(%id, attempt, task, "attempt failed, another follows: {:?}", ended.result);
            let wakes = run.wakes_at();
            self.in_flight.wake_at(wakes);
            return;
        }
        self.in_flight.finish(now, &id, Some(ended));
    }

    pub(super) fn runs_due(&mut self, now: Clocks) {
        for _ in 0..BEGIN_AT_ONCE {
            let Some(id) = self.in_flight.take_due(now.mono) else { break };
            self.begin(now, &id);
        }
        if self.in_flight.wakes_at().is_none_or(|at| now.mono < at) {
            return;
        }
        let due =
            self.in_flight.runs.iter().filter(|(_, run)| run.wakes_at().is_some_and(|at| now.mono >= at));
        let due: Vec<RunId> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            let Some(run) = self.in_flight.runs.get_mut(&id) else { continue };
            if run.stop.is_none() && run.times_out_at.is_some_and(|at| now.mono >= at) {
                self.stop(now, &id, &Why::TimedOut);
                continue;
            }
            if run.abort_at.is_some_and(|at| now.mono >= at) {
                run.abort_at = None;
                run.aborted = true;
                self.effects.push(Effect::Abort(id));
                continue;
            }
            if matches!(run.stage, Stage::Backoff { until } if now.mono >= until) {
                run.attempt += 1;
                self.start(now, &id);
                self.announce(&id);
            }
        }
        self.in_flight.look_when();
    }

    pub(super) fn on_cancel(&mut self, now: Clocks, cancel: Cancel) {
        let reason = cancel.reason();
        let Some(id) = cancel.run.map(RunId::from) else { return };
        let why = match reason {
            CancelReason::Fenced => Why::Fenced(cancel.message),
            CancelReason::TimedOut => Why::TimedOut,
            CancelReason::Operator | CancelReason::Unspecified => Why::Operator(cancel.message),
        };
        self.stop(now, &id, &why);
    }

    pub(super) fn stop_all(&mut self, now: Clocks, why: &Why) {
        // Skip runs that already have this reason.
        let told = |run: &InFlightRun| run.urgent || run.stop.as_ref() == Some(why);
        let untold = self.in_flight.runs.iter().filter(|(_, run)| !told(run));
        let untold: Vec<RunId> = untold.map(|(id, _)| id.clone()).collect();
        for id in untold {
            self.stop(now, &id, why);
        }
    }

    /// Tells a run to stop. The first reason stays, unless another run has taken its place; a more urgent one shortens
    /// the grace.
    fn stop(&mut self, now: Clocks, id: &RunId, why: &Why) {
        let grace = if why.urgent() { self.lease.budget() } else { self.settings.stop_grace };
        let Some(run) = self.in_flight.runs.get_mut(id) else { return };
        let first = run.stop.is_none();
        run.urgent |= why.urgent();
        let fenced = |why: &Why| matches!(why, Why::Fenced(_));
        if first || fenced(why) && !run.stop.as_ref().is_some_and(fenced) {
            run.stop = Some(why.clone());
            let task = &run.trigger.task_id;
            tracing::warn!(
                job = id.job,
                item = id.item,
                token = id.token,
                task,
                "run stopped: {}",
                why.text()
            );
        }
        if run.stage != Stage::InCode {
            return self.in_flight.finish(now, id, None);
        }
        if !run.aborted && (first || why.urgent()) {
            let at = now.mono + grace;
            run.abort_at = Some(run.abort_at.map_or(at, |before| before.min(at)));
            self.in_flight.wake_at(Some(at));
        }
        if first {
            self.effects.push(Effect::Cancel(id.clone()));
        }
    }

    /// The identity under which the runs were started was marked dead.
    pub(super) fn disown_all(&mut self, now: Clocks) {
        self.in_flight.disown();
        self.stop_all(now, &Why::Fenced("the worker was marked dead".into()));
    }

    pub(super) fn on_progress(&mut self, now: Clocks, id: &RunId, percent: u32, message: String) {
        let Some(run) = self.in_flight.runs.get_mut(id) else { return };
        run.progress.latest = (percent.min(100), limits::cut(message, limits::PROGRESS_BYTES));
        run.progress.waits = true;
        if self.link.is_open() {
            self.effects.extend(run.progress.take(now.mono, id));
        }
    }

    pub(super) fn on_offset(&mut self, now: Clocks, id: &RunId, offset: Bytes) {
        let Some(run) = self.in_flight.runs.get_mut(id) else { return };
        run.progress.offset = Some(offset);
        run.progress.offset_waits = true;
        run.progress.offset_at.get_or_insert(now.mono);
        if self.link.is_open() {
            self.effects.extend(run.progress.take(now.mono, id));
        }
    }

    /// Sends all offsets again: another coordinator may not know them.
    pub(super) fn say_offsets_again(&mut self) {
        for run in self.in_flight.runs.values_mut() {
            run.progress.offset_waits |= run.progress.offset.is_some();
        }
    }

    pub(super) fn on_callback(&mut self, now: Clocks, callback: Callback) {
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

    pub(super) fn callbacks_due(&mut self, now: Clocks) {
        let over = self.callbacks.iter().filter(|(_, until)| until.is_some_and(|until| now.mono >= until));
        let over: Vec<String> = over.map(|(id, _)| id.clone()).collect();
        for callback_id in over {
            self.stop_callback(callback_id, "the callback took longer than its timeout", true);
        }
    }

    /// The drain deadline applies to callbacks too.
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
    /// The progress that may be sent now.
    fn take(&mut self, now: Duration, id: &RunId) -> Option<Effect> {
        if self.sent_at.is_some_and(|at| now < at + PROGRESS_EVERY) {
            return None;
        }
        // A run that ends sooner reports its offset with its end only.
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

impl InFlightRun {
    /// The frame that announces that user code has begun, once for each attempt.
    fn announce(&mut self, id: &RunId) -> Option<Effect> {
        if self.stage != Stage::InCode {
            return None;
        }
        let (run, started_at) = (Some(id.to_proto()), Some(self.unannounced.take()?.into()));
        Some(Effect::Send(Request::RunStarted(RunStarted { run, started_at, attempt: self.attempt })))
    }

    /// Whether user code was never called although it was allowed to begin: the last check refused its first attempt.
    pub(super) fn never_began(&self, ended: Option<&Ended>) -> bool {
        let not_begun = ended.is_some_and(|ended| ended.result == UserResult::NotBegun);
        not_begun && self.attempt == self.trigger.attempt.max(1)
    }

    /// The next timer of this run.
    pub(super) fn wakes_at(&self) -> Option<Duration> {
        let backoff = match self.stage {
            Stage::Backoff { until } => Some(until),
            // Waiting runs have a queue of their own.
            Stage::InCode | Stage::Waiting { .. } => None,
        };
        let times_out_at = self.times_out_at.filter(|_| self.stop.is_none());
        [backoff, times_out_at, self.abort_at].into_iter().flatten().min()
    }
}
