//! Which jobs this worker works for, as far as the coordinator agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::words::{Exit, JobSpec, Now, Props};
use super::{Machine, Request};
use crate::hooks::News;
use crate::options::OnRefused;
use crate::proto::{Assignment, ConfigDifference, Refused, Register, Registered, Shutdown, Unregister};

/// A refused job is offered again after this, in case an operator has mended it.
const OFFER_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
enum State {
    Offered,
    Registered,
    Refused {
        code: String,
        message: String,
        again_at: Duration,
    },
    /// An operator shut it down here.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Jobs {
    all: BTreeMap<String, (JobSpec, State)>,
    /// Those that a coordinator has agreed to, on this stream or on one before.
    agreed: BTreeSet<String>,
    /// As they were told last; they outlive the stream.
    props: BTreeMap<String, Arc<Props>>,
    /// Code and message of the refusals that were said, until the job is registered.
    refusals: BTreeMap<String, (String, String)>,
    /// Where their configs differ from the store, as it was said last.
    differences: BTreeMap<String, Vec<ConfigDifference>>,
    /// When the first of the refused ones is offered again: asked at every event, so it is kept.
    again: Option<Duration>,
}

impl Jobs {
    pub(crate) fn new(specs: &[JobSpec]) -> Self {
        let all = specs.iter().map(|spec| (spec.name.clone(), (spec.clone(), State::Offered))).collect();
        Self {
            all,
            agreed: BTreeSet::new(),
            props: BTreeMap::new(),
            refusals: BTreeMap::new(),
            differences: BTreeMap::new(),
            again: None,
        }
    }

    /// Whether runs of the job may start here.
    pub(crate) fn serves(&self, job: &str) -> bool {
        let state = self.all.get(job).map(|(_, state)| state);
        matches!(state, Some(State::Offered | State::Registered))
    }

    /// Whether nobody has shut the job down here.
    pub(crate) fn works_for(&self, job: &str) -> bool {
        self.all.get(job).is_some_and(|(_, state)| !matches!(state, State::Stopped))
    }

    /// The jobs that a coordinator has agreed to. One that is offered again after a reconnect still counts: it may
    /// have runs in flight here, and the next coordinator must read their records before it says Welcome.
    pub(crate) fn registered(&self) -> Vec<String> {
        self.agreed.iter().filter(|job| self.works_for(job)).cloned().collect()
    }

    /// The others. Whether their coordinator heard of them is not known, and runs that it gave take slots here.
    pub(crate) fn asked(&self) -> Vec<String> {
        let agreed = |job: &String| self.agreed.contains(job) && self.works_for(job);
        self.all.keys().filter(|job| !agreed(job)).cloned().collect()
    }

    /// Those that are shut down here.
    fn stopped(&self) -> Vec<String> {
        let stopped = self.all.iter().filter(|(_, (_, state))| matches!(state, State::Stopped));
        stopped.map(|(job, _)| job.clone()).collect()
    }

    /// What all runs of a job are told, from now on.
    pub(crate) fn on_assignment(&mut self, assignment: Assignment) {
        let Assignment { job, items, generation, props, .. } = assignment;
        tracing::debug!(job, ?items, generation, "assignment");
        if self.all.contains_key(&job) {
            self.props.insert(job, Arc::new(props));
        }
    }

    pub(crate) fn props(&self, job: &str) -> Arc<Props> {
        self.props.get(job).cloned().unwrap_or_default()
    }

    /// Whether a refusal has not been said yet.
    pub(super) fn is_news(&mut self, refused: &Refused) -> bool {
        let said = (refused.code.clone(), refused.message.clone());
        self.refusals.insert(refused.job.clone(), said.clone()).is_none_or(|before| before != said)
    }

    /// What to say of a config that has no effect, once for each set of differences.
    pub(super) fn ignored(&mut self, registered: &Registered) -> Option<String> {
        let Registered { job, config_differences: differences, .. } = registered;
        let known = self.differences.insert(job.clone(), differences.clone()).unwrap_or_default();
        if differences.is_empty() || known == *differences {
            return None;
        }
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".into());
        let fields = differences.iter().map(|ConfigDifference { field, stored, offered }| {
            format!("{field} is {} in the store and {} here", shown(stored), shown(offered))
        });
        let fields: Vec<String> = fields.collect();
        Some(format!(
            "the config of job {job} is ignored, since the job exists: {}; register it with overwrite, or change the \
             job by `rosterd jobs apply`",
            fields.join(", ")
        ))
    }

    pub(crate) fn retry_at(&self) -> Option<Duration> {
        self.again
    }

    fn look_when_again(&mut self) {
        let again = self.all.values().map(|(_, state)| match state {
            State::Refused { again_at, .. } => Some(*again_at),
            _ => None,
        });
        self.again = again.flatten().min();
    }

    fn set(&mut self, job: &str, state: State) {
        let Some((_, old)) = self.all.get_mut(job) else { return };
        if matches!(old, State::Stopped) {
            return;
        }
        let refused = |state: &State| matches!(state, State::Refused { .. });
        let matters = refused(old) || refused(&state);
        *old = state;
        if matters {
            self.look_when_again();
        }
    }

    /// Offers every job for which `which` holds.
    fn offer(&mut self, which: impl Fn(&State) -> bool) -> Vec<Register> {
        let mut offers = Vec::new();
        for (spec, state) in self.all.values_mut().filter(|(_, state)| which(state)) {
            *state = State::Offered;
            offers.push(Register {
                job: spec.name.clone(),
                handler_type: spec.handler_type.clone(),
                config: spec.config.clone(),
                overwrite: spec.overwrite,
            });
        }
        self.look_when_again();
        offers
    }
}

impl Machine {
    /// After every Welcome.
    pub(super) fn register_all(&mut self) {
        for register in self.jobs.offer(|state| !matches!(state, State::Stopped)) {
            self.send(Request::Register(register));
        }
        // Who was told before may have died over it.
        for job in self.jobs.stopped() {
            self.send(Request::Unregister(Unregister { job }));
        }
    }

    pub(super) fn jobs_due(&mut self, now: Now) {
        if self.jobs.retry_at().is_none_or(|at| now.mono < at) {
            return;
        }
        if !self.link.is_open() || self.leave.is_some() {
            // Nothing to offer to; the next Welcome offers all.
            return self.postpone(now);
        }
        let due = |state: &State| matches!(state, State::Refused { again_at, .. } if now.mono >= *again_at);
        for register in self.jobs.offer(due) {
            self.send(Request::Register(register));
        }
    }

    fn postpone(&mut self, now: Now) {
        for (_, state) in self.jobs.all.values_mut() {
            if let State::Refused { again_at, .. } = state {
                *again_at = now.mono + OFFER_AGAIN;
            }
        }
        self.jobs.look_when_again();
    }

    pub(super) fn on_registered(&mut self, registered: Registered) {
        // An answer that crossed a shutdown.
        if !self.jobs.works_for(&registered.job) {
            return;
        }
        let next: Option<Duration> = registered.next_fire_in.and_then(|next| next.try_into().ok());
        let (job, items) = (registered.job.clone(), registered.sharding_total_count);
        match next {
            Some(next) => tracing::info!(job, "job {job}: {items} items, next fire in {}s", next.as_secs()),
            None => tracing::info!(job, "job {job}: {items} items, no scheduled time to come"),
        }
        self.news.push(News::Registered { job, items, next });
        self.jobs.set(&registered.job, State::Registered);
        self.jobs.agreed.insert(registered.job.clone());
        self.jobs.refusals.remove(&registered.job);
        if let Some(warning) = self.jobs.ignored(&registered) {
            tracing::warn!(job = registered.job, "{warning}");
        }
        self.quicken(registered.lease, registered.heartbeat_interval);
    }

    pub(super) fn on_refused(&mut self, now: Now, refused: Refused) {
        if self.leave.is_some() {
            return;
        }
        let news = self.jobs.is_news(&refused);
        let Refused { job, code, message } = refused;
        if news {
            tracing::error!(job, code, "job refused, and offered again from time to time: {message}");
        }
        self.jobs.set(&job, State::Refused { code, message, again_at: now.mono + OFFER_AGAIN });
        self.nothing_left(now);
    }

    /// One job is shut down here, or all of them.
    pub(super) fn on_shutdown(&mut self, now: Now, shutdown: &Shutdown) {
        tracing::info!(job = shutdown.job, "shut down by an operator: {}", shutdown.message);
        if shutdown.job.is_empty() {
            return self.begin_leave(now, self.settings.drain_timeout);
        }
        if self.jobs.works_for(&shutdown.job) {
            self.jobs.set(&shutdown.job, State::Stopped);
            self.send(Request::Unregister(Unregister { job: shutdown.job.clone() }));
        }
        self.nothing_left(now);
    }

    /// Without a job that may still run, the worker leaves: with the refusal, or in peace if all were shut down.
    fn nothing_left(&mut self, now: Now) {
        let states = || self.jobs.all.values().map(|(_, state)| state);
        if states().any(|state| matches!(state, State::Offered | State::Registered)) {
            return;
        }
        let first = self.jobs.all.iter().find_map(|(job, (_, state))| match state {
            State::Refused { code, message, .. } => Some((job.clone(), code.clone(), message.clone())),
            _ => None,
        });
        match first {
            None => self.begin_leave(now, self.settings.drain_timeout),
            Some(_) if self.settings.on_refused == OnRefused::Retry => {}
            // What is in flight still ends and is reported, then the refusal is told.
            Some((job, code, message)) => {
                self.begin_leave(now, self.settings.drain_timeout);
                self.after_leave = Some(Exit::Refused { job, code, message });
            }
        }
    }
}
