//! One stream from dial to loss: Hello, Welcome, heartbeats, and the signs that it is dead.

use std::time::Duration;

use super::lease::{Beats, DEFAULT_BEAT, DEFAULT_BUDGET, DEFAULT_LEASE};
use super::link::{BACKOFF_MOST, BACKOFF_MOST_LEAVING};
use super::types::{Clocks, Effect, Exit};
use super::{Identity, LinkPhase, Machine, OneWayDelay, Request};
use crate::hooks::News;
use crate::link_error::LinkError;
use crate::mutants;
use crate::proto::{DrainRequest, Heartbeat, Hello, Welcome};

const CLIENT: &str = concat!("rosterd-client-rust/", env!("CARGO_PKG_VERSION"));

impl Machine {
    pub(super) fn stream_due(&mut self, now: Clocks) {
        let silence = self.lease.silence();
        let lease_end = self.lease.stops_at().unwrap_or_default();
        match &self.link.phase {
            LinkPhase::Waiting { until } if now.mono >= *until => {
                let (connection, address) = self.link.dial(now.mono);
                self.effects.push(Effect::Connect { connection, address });
            }
            LinkPhase::Connecting { until } if now.mono >= *until => self.lose(now, "no connection in time"),
            LinkPhase::Greeting { until, .. } if now.mono >= *until => self.lose(now, "no welcome in time"),
            LinkPhase::Open(open) if now.mono >= open.dead_at(silence, lease_end) => {
                self.lose(now, "the coordinator is silent");
            }
            LinkPhase::Open(open) if now.mono >= open.beats.next_at() => self.beat(now),
            _ => {}
        }
    }

    pub(super) fn on_connected(&mut self, now: Clocks) {
        if !matches!(self.link.phase, LinkPhase::Connecting { .. }) {
            return;
        }
        let stream_number = self.link.greet(now.mono);
        let me = self.me.as_ref();
        let forgets = mutants::is_on(mutants::HELLO_FORGETS_RUNS);
        let hello = Hello {
            namespace: self.settings.namespace.clone(),
            worker_id: me.map(|me| me.worker_id.clone()).unwrap_or_default(),
            resume_key: me.map(|me| me.resume_key.clone()).unwrap_or_default(),
            stream_number,
            address: self.settings.address.clone(),
            labels: self.settings.labels.clone(),
            slots: self.settings.slots,
            runs_in_flight: if forgets { Vec::new() } else { self.in_flight.refs() },
            client: CLIENT.into(),
            sent_at: Some(now.wall.into()),
            jobs: self.jobs.registered(),
            jobs_asked: if me.is_some() { self.jobs.asked() } else { Vec::new() },
            holds_triggers: true,
        };
        self.send(Request::Hello(hello));
    }

    pub(super) fn on_welcome(&mut self, now: Clocks, welcome: Welcome) {
        let LinkPhase::Greeting { hello_at, .. } = self.link.phase else { return };
        let hello_at = if mutants::is_on(mutants::LEASE_FROM_WELCOME) { now.mono } else { hello_at };
        let same = self.me.as_ref().is_none_or(|me| me.worker_id == welcome.worker_id);
        let (instance, coordinator) = (&welcome.instance_id, &welcome.coordinator_id);
        tracing::info!(instance, coordinator, "connected to {} as {instance}", self.link.address());
        self.me = Some(Identity {
            worker_id: welcome.worker_id,
            instance_id: welcome.instance_id.clone(),
            resume_key: welcome.resume_key,
        });
        let (server, instance_id) = (self.link.address(), welcome.instance_id);
        self.news.push(News::Attached { server, instance_id });
        self.rejections = 0;
        self.lease.grant(
            hello_at,
            positive(welcome.lease).unwrap_or(DEFAULT_LEASE),
            welcome.stop_budget.and_then(|budget| budget.try_into().ok()).unwrap_or(DEFAULT_BUDGET),
            same,
        );
        if !same {
            tracing::warn!("marked dead in the meantime: every run in flight is fenced");
            self.disown_all(now);
        }
        let interval = self.lease.interval(positive(welcome.heartbeat_interval).unwrap_or(DEFAULT_BEAT));
        self.link.welcome(now.mono, Beats::new(hello_at, interval), welcome.coordinators);
        self.credit = welcome.max_unacknowledged_reports.max(1) as usize;
        self.one_way_delay = OneWayDelay::default();
        self.in_flight.resend();
        self.say_offsets_again();
        match &mut self.leave {
            Some(_) if mutants::is_on(mutants::LEAVE_NOT_REPEATED) => {}
            Some(leave) => {
                leave.restart();
                leave.asked(now.mono);
                self.send(Request::DrainRequest(DrainRequest {}));
            }
            None => self.register_all(),
        }
        for answer in std::mem::take(&mut self.answers) {
            self.send(Request::CallbackDone(answer));
        }
    }

    pub(super) fn on_heartbeat_ack(&mut self, now: Clocks, sequence: u64) {
        let Some(open) = self.link.open() else { return };
        if let Some(sent_at) = open.beats.acknowledge(sequence) {
            open.renewed_at = now.mono;
            let proof = if mutants::is_on(mutants::LEASE_FROM_ACK) { now.mono } else { sent_at };
            self.lease.prove(proof);
            self.news.push(News::Renewed(now.mono.saturating_sub(sent_at)));
            self.link.healthy();
        }
    }

    /// The lease in force from now on.
    pub(super) fn quicken(
        &mut self,
        lease: Option<prost_types::Duration>,
        interval: Option<prost_types::Duration>,
    ) {
        if let Some(lease) = positive(lease) {
            self.lease.shorten(lease);
        }
        if let Some(interval) = positive(interval) {
            self.lease.quicken(interval);
        }
        let interval = self.lease.interval(Duration::MAX);
        if let Some(open) = self.link.open() {
            open.beats.quicken(interval);
        }
    }

    pub(super) fn on_closed(&mut self, now: Clocks, error: LinkError) {
        // In a row: a coordinator that is only unreachable may be one that accepts this worker.
        self.rejections = if self.me.is_none() && error.rejected() { self.rejections + 1 } else { 0 };
        if self.rejections > 0 && self.rejections >= self.link.addresses() {
            return self.exit(Exit::Rejected(error));
        }
        self.lose(now, &error.to_string());
    }

    pub(super) fn detached(&mut self, why: &str) {
        if self.link.is_open() {
            self.news.push(News::Detached { server: self.link.address(), reason: why.to_owned() });
        }
    }

    /// Leaves the stream, or gives up the attempt; the next address follows.
    pub(super) fn lose(&mut self, now: Clocks, why: &str) {
        self.detached(why);
        if let Some(connection) = self.link.current() {
            self.effects.push(Effect::Close { connection });
        }
        let most = if self.leave.is_some() { BACKOFF_MOST_LEAVING } else { BACKOFF_MOST };
        let failed = if self.link.is_open() { "disconnected from" } else { "cannot connect to" };
        let server = self.link.address();
        let pause = self.link.lose(now.mono, most).as_secs_f64();
        self.in_flight.drop_unstarted();
        if let Some(leave) = &mut self.leave {
            leave.restart();
        }
        tracing::warn!(
            in_flight = self.in_flight.refs().len(),
            "{failed} {server}: {why}; retrying in {pause:.1}s"
        );
    }

    fn beat(&mut self, now: Clocks) {
        self.announce_runs(now);
        let runs_in_flight = self.in_flight.refs();
        let Some(open) = self.link.open() else { return };
        let sequence = open.beats.send(now.mono);
        let lease = prost_types::Duration::try_from(self.lease.length()).ok();
        self.send(Request::Heartbeat(Heartbeat { sequence, runs_in_flight, lease }));
    }
}

/// A duration, if the coordinator has set it.
fn positive(duration: Option<prost_types::Duration>) -> Option<Duration> {
    duration.and_then(|duration| duration.try_into().ok()).filter(|duration| *duration > Duration::ZERO)
}
