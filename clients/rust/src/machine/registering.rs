//! Offering jobs, and the coordinators' answers: a job is registered, refused, or shut down here.

use std::time::Duration;

use super::jobs::{OFFER_AGAIN, RegistrationState};
use super::types::{Clocks, Exit};
use super::{Machine, Request};
use crate::hooks::News;
use crate::options::OnRefused;
use crate::proto::{Refused, Registered, Shutdown, Unregister};

impl Machine {
    /// After every Welcome.
    pub(super) fn register_all(&mut self) {
        for register in self.jobs.offer(|state| !matches!(state, RegistrationState::Stopped)) {
            self.send(Request::Register(register));
        }
        // The previous coordinator may have died before it handled it.
        for job in self.jobs.stopped() {
            self.send(Request::Unregister(Unregister { job }));
        }
    }

    pub(super) fn jobs_due(&mut self, now: Clocks) {
        if self.jobs.retry_at().is_none_or(|at| now.mono < at) {
            return;
        }
        if !self.link.is_open() || self.leave.is_some() {
            // There is no stream; the worker offers all after the next Welcome.
            return self.postpone(now);
        }
        let due = |state: &RegistrationState| matches!(state, RegistrationState::Refused { again_at, .. } if now.mono >= *again_at);
        for register in self.jobs.offer(due) {
            self.send(Request::Register(register));
        }
    }

    fn postpone(&mut self, now: Clocks) {
        for (_, state) in self.jobs.all.values_mut() {
            if let RegistrationState::Refused { again_at, .. } = state {
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
        self.jobs.set(&registered.job, RegistrationState::Registered);
        self.jobs.agreed.insert(registered.job.clone());
        self.jobs.refusals.remove(&registered.job);
        if let Some(warning) = self.jobs.ignored(&registered) {
            tracing::warn!(job = registered.job, "{warning}");
        }
        self.quicken(registered.lease, registered.heartbeat_interval);
    }

    pub(super) fn on_refused(&mut self, now: Clocks, refused: Refused) {
        if self.leave.is_some() {
            return;
        }
        let news = self.jobs.is_news(&refused);
        let Refused { job, code, message } = refused;
        if news {
            tracing::error!(job, code, "job refused, and offered again from time to time: {message}");
        }
        self.jobs.set(&job, RegistrationState::Refused { code, message, again_at: now.mono + OFFER_AGAIN });
        self.nothing_left(now);
    }

    /// One job is shut down here, or all of them.
    pub(super) fn on_shutdown(&mut self, now: Clocks, shutdown: &Shutdown) {
        tracing::info!(job = shutdown.job, "shut down by an operator: {}", shutdown.message);
        if shutdown.job.is_empty() {
            return self.begin_leave(now, self.settings.drain_timeout);
        }
        if self.jobs.works_for(&shutdown.job) {
            self.jobs.set(&shutdown.job, RegistrationState::Stopped);
            self.send(Request::Unregister(Unregister { job: shutdown.job.clone() }));
        }
        self.nothing_left(now);
    }

    /// Without a job that may still run, the worker leaves: with the refusal, or without an error if all were shut
    /// down.
    fn nothing_left(&mut self, now: Clocks) {
        let states = || self.jobs.all.values().map(|(_, state)| state);
        if states().any(|state| matches!(state, RegistrationState::Offered | RegistrationState::Registered)) {
            return;
        }
        let first = self.jobs.all.iter().find_map(|(job, (_, state))| match state {
            RegistrationState::Refused { code, message, .. } => {
                Some((job.clone(), code.clone(), message.clone()))
            }
            _ => None,
        });
        match first {
            None => self.begin_leave(now, self.settings.drain_timeout),
            Some(_) if self.settings.on_refused == OnRefused::Retry => {}
            // Runs in flight still end and are reported, then the refusal is reported.
            Some((job, code, message)) => {
                self.begin_leave(now, self.settings.drain_timeout);
                self.after_leave = Some(Exit::Refused { job, code, message });
            }
        }
    }
}
