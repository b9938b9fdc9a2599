//! The coordinator's own life: how it begins, proves its session, notices that it must not start anything, and
//! stops.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::CoordinatorId;
use rosterd_domain::mutants;
use rosterd_domain::txn::{Purpose, Txn};

use super::calendar::Jump;
use super::event::{Effect, Query, ReadId, StreamId};
use super::handle::Health;
use super::node::{Node, ReadFor, TxnFor};
use super::settings::Settings;
use super::timers::Timer;
use rosterd_registry::SessionState;
use rosterd_session::code::{Code, Refusal};

/// How often a coordinator writes what others and people may know of it, at least.
const TELLS_EVERY: Duration = Duration::from_secs(10);

impl Node {
    pub(super) fn start(&mut self) {
        self.up_since = self.now.wall;
        self.session_proved_at = self.now.mono;
        self.prove_if_idle();
        self.read_members();
        self.read_attachments();
    }

    /// Writes this coordinator's own node where nothing else has proved its session lately.
    pub(super) fn prove_if_idle(&mut self) {
        let every = self.settings.session.map_or(TELLS_EVERY, Settings::proof_every);
        let now = self.now.mono;
        let due =
            now.since(self.session_proved_at) >= every || now.since(self.member_written_at) >= TELLS_EVERY;
        if (due || self.health != Health::Serving || !self.is_open()) && !self.is_proving() {
            self.prove();
        }
        let well = self.health == Health::Serving && self.is_open();
        // What proved it since the last look does so only for its time.
        let left = every.saturating_sub(now.since(self.session_proved_at));
        let next = if left.is_zero() { every } else { left };
        self.prove_in(if well { next } else { self.settings.store_retry });
    }

    /// Looks then whether the session is to be proved; not also when that was to be looked at before.
    pub(super) fn prove_in(&mut self, after: Duration) {
        self.timers.retain(|(_, timer)| *timer != Timer::Proof);
        self.set_timer(after, Timer::Proof);
    }

    /// A write of this coordinator's own node is under way.
    pub(super) fn is_proving(&self) -> bool {
        self.txns.values().any(|(whom, _)| matches!(whom, TxnFor::Own))
    }

    /// Whether the session surely lives: some write of ours proved it recently enough. Answers to pings and
    /// reads prove nothing, since a follower that is cut off gives them too.
    pub(super) fn proven(&self) -> bool {
        let Some(session) = self.settings.session else { return true };
        self.now.mono < self.session_proved_at.plus(self.settings.believed(session))
    }

    /// When it was last proved, in milliseconds; for views.
    pub fn proved_at(&self) -> u64 {
        u64::try_from(self.session_proved_at.0.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn members_read(&mut self, asked: ReadId, read: BTreeMap<CoordinatorId, Arc<str>>) {
        let before = self.coordinators.changes;
        self.coordinators.take(asked, read);
        if self.coordinators.changes != before {
            self.members_since = self.now.mono;
            self.run_queue.extend(self.jobs.keys().cloned());
        }
        // A session of this coordinator from before may have taken the node with it when it ended.
        if self.registered && !self.stopping && !self.coordinators.contains(&self.settings.id) {
            self.prove();
        }
        self.look_at_hosts();
    }

    pub(super) fn prove(&mut self) {
        self.member_written_at = self.now.mono;
        self.clock_is_written();
        let data = self.myself();
        let mut txn = Txn::new(Purpose::Coordinator);
        txn.write(rosterd_domain::txn::Write::Coordinator { id: self.settings.id.clone(), data });
        self.commit(TxnFor::Own, txn);
    }

    /// The write of this coordinator's own node ended. Before it stands others would take the host of a worker
    /// for dead, and the worker with it: who came early is attended to now.
    pub(super) fn listed(&mut self, listed: bool) {
        self.registered |= listed;
        if !self.registered {
            return self.prove_in(self.settings.store_retry);
        }
        self.compare_clock();
        if self.stopping {
            // It was said: what this coordinator leads can be given up.
            self.run_queue.extend(self.jobs.keys().cloned());
        }
        self.admit_early();
    }

    /// Whether workers may come: this coordinator's node is there, and it knows what time it is.
    pub(super) fn is_open(&self) -> bool {
        self.registered && !self.clock_is_unknown()
    }

    /// Who came before that is attended to now.
    pub(super) fn admit_early(&mut self) {
        let early = if self.is_open() { std::mem::take(&mut self.hellos_before_ready) } else { Vec::new() };
        for (stream, hello) in early {
            if self.streams.contains_key(&stream) {
                self.arrives(stream, hello);
            }
        }
    }

    pub(super) fn session_changed(&mut self, state: SessionState) {
        let health = match state {
            SessionState::Connected => Health::Serving,
            SessionState::Suspended if !mutants::is_on(mutants::SUSPENDED_IS_GONE) => Health::Suspended,
            SessionState::Suspended | SessionState::Gone => {
                tracing::error!("the store's session is over: this coordinator gives up everything");
                return self.stop_at_once();
            }
        };
        self.set_health(health);
        if state == SessionState::Connected {
            for (name, job) in &mut self.jobs {
                job.stale = true;
                job.stale_records = true;
                self.run_queue.insert(name.clone());
            }
            self.read(ReadFor::Jobs, Query::Jobs);
            self.read_attachments();
        }
    }

    /// Nothing may start: the store does not answer, or this coordinator is leaving.
    pub(super) fn no_starts(&self) -> bool {
        self.stopping
            || !self.synced
            || self.clock_is_unknown()
            || self.health == Health::Suspended
            || !self.proven()
    }

    /// By how many milliseconds the calendar is ahead of the store's clock; below zero: behind.
    pub fn clock_ahead(&self) -> i64 {
        self.calendar_watch.ahead_of_store()
    }

    /// How it is, to whoever asks.
    pub(super) fn health_shown(&self) -> Health {
        let good = self.calendar_is_good(self.settings.max_clock_difference);
        if self.health == Health::Serving && !good { Health::ClockOff } else { self.health }
    }

    /// Whether the calendar is within `limit` of what it should say.
    pub(super) fn calendar_is_good(&self, limit: Duration) -> bool {
        self.calendar_watch.off() <= limit || mutants::is_on(mutants::CALENDAR_BELIEVED)
    }

    pub(super) fn calendar_jumped(&mut self, jump: &Jump) {
        let settles = self.settings.clock_settles;
        match jump {
            Jump::Off(by) => tracing::error!(
                "ALARM: the calendar has jumped by {by:?}: jobs do not fire by it until it has gone on steadily for {settles:?}"
            ),
            Jump::Settled => tracing::warn!("the calendar goes on steadily: jobs fire by it again"),
            Jump::Apart(ahead) => tracing::error!(
                "ALARM: this machine's clock is {} the store's: nothing fires here until they agree to {:?}; set it right (chrony, \
                 systemd-timesyncd), or look at the clocks of the ZooKeeper servers where several coordinators say so",
                ahead_or_behind(*ahead),
                self.settings.max_clock_difference
            ),
            Jump::Agrees => {
                tracing::warn!("this machine's clock agrees with the store's: jobs fire by it again")
            }
        }
        self.out.push(Effect::Health(self.health_shown()));
        self.run_queue.extend(self.jobs.keys().cloned());
    }

    pub(super) fn stop(&mut self) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.set_health(Health::Draining);
        let streams: Vec<StreamId> = self.streams.keys().copied().collect();
        for stream in streams {
            self.close(
                stream,
                Some(Refusal::new(Code::Draining, "this coordinator is stopping: connect to another one")),
            );
        }
        // Said before leaderships are given up, so that nobody waits for this coordinator to take them again.
        self.prove();
        self.run_queue.extend(self.jobs.keys().cloned());
    }

    pub(super) fn stop_at_once(&mut self) {
        self.stopping = true;
        self.stopped = true;
        self.set_health(Health::Suspended);
        self.out.push(Effect::Stopped);
    }

    pub(super) fn stop_if_done(&mut self) {
        if self.stopping && !self.stopped && self.txns.is_empty() {
            let waits = self.jobs.values().any(|job| job.leads() || !job.reports.is_empty());
            if !waits {
                self.stopped = true;
                self.out.push(Effect::Stopped);
            }
        }
    }
}

fn ahead_or_behind(ahead: i64) -> String {
    let by = Duration::from_millis(ahead.unsigned_abs());
    if ahead < 0 { format!("{by:?} behind") } else { format!("{by:?} ahead of") }
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::{JobName, Namespace, Revision};
    use rosterd_domain::time::{Mono, Time};
    use rosterd_domain::txn::Commit;

    use super::*;
    use crate::event::{Answer, Event, Now};
    use crate::job::JobState;

    fn at(seconds: u64) -> Now {
        let since = Duration::from_secs(seconds);
        Now { wall: Time::from_seconds(1000).plus(since), mono: Mono(since) }
    }

    fn commits(effects: Vec<Effect>) -> Vec<u64> {
        let commit = |effect| match effect {
            Effect::Commit(id, _) => Some(id),
            _ => None,
        };
        effects.into_iter().filter_map(commit).collect()
    }

    /// The store's clock agrees.
    fn tell_time(node: &mut Node, now: Now, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Read(id, Query::ToldAt(_)) = effect {
                node.handle(now, Event::Read(id, Answer::ToldAt(Ok(Some(now.wall)))));
            }
        }
    }

    /// A leader stood still, heard right after that an instance had come, and was not yet sure of its session: it never
    /// planned.
    #[test]
    fn what_waited_for_a_proof_of_the_session_is_looked_at_once_there_is_one() {
        let id = CoordinatorId::new("c").unwrap();
        let mut settings = Settings::new(Namespace::new("n").unwrap(), id);
        settings.session = Some(Duration::from_secs(10));
        let mut node = Node::new(settings, "session".into(), Box::new(|| "id".to_owned()));
        for proof in commits(node.handle(at(0), Event::Start)) {
            let effects = node.handle(at(0), Event::Committed(proof, Commit::Committed(Revision(1))));
            tell_time(&mut node, at(0), effects);
        }
        let job = JobName::new("j").unwrap();
        let state = JobState { loaded: true, stale: true, ..JobState::default() };
        node.jobs.insert(job.clone(), Box::new(state));
        let proofs = commits(node.handle(at(9), Event::Tick));
        assert!(!node.proven() && !node.jobs[&job].reading);
        for proof in proofs {
            node.handle(at(9), Event::Committed(proof, Commit::Committed(Revision(2))));
        }
        assert!(node.proven() && node.jobs[&job].reading);
    }

    /// What was written beside put the look off by a whole time, so that up to two went by without a proof.
    #[test]
    fn a_session_is_proved_in_each_of_the_times_in_which_a_proof_is_due() {
        let mut settings = Settings::new(Namespace::new("n").unwrap(), CoordinatorId::new("c").unwrap());
        settings.session = Some(Duration::from_secs(12));
        let mut node = Node::new(settings, "session".into(), Box::new(|| "id".to_owned()));
        let mut sent = Vec::new();
        let play = |node: &mut Node, now: u64, event: Event, sent: &mut Vec<u64>| {
            for effect in node.handle(at(now), event) {
                match effect {
                    Effect::Commit(id, _) => {
                        sent.push(now);
                        let effects =
                            node.handle(at(now), Event::Committed(id, Commit::Committed(Revision(1))));
                        tell_time(node, at(now), effects);
                    }
                    Effect::Read(id, Query::Attachments) => {
                        node.handle(at(now), Event::Read(id, Answer::Attachments(Ok(BTreeMap::new()))));
                    }
                    _ => {}
                }
            }
        };
        play(&mut node, 0, Event::Start, &mut sent);
        assert_eq!((node.health, node.registered), (Health::Serving, true));
        for _ in 0..20 {
            let Some(wake) = node.wake_at().1 else { panic!("nothing is looked at again") };
            let now = wake.0.as_secs();
            // Something else was written, and sent, a second after the last proof.
            if sent.len() == 3 && node.proved_at() / 1000 + 1 < now {
                node.session_proved_at = Mono(Duration::from_secs(node.proved_at() / 1000 + 1));
                sent.push(node.proved_at() / 1000);
            }
            play(&mut node, now, Event::Tick, &mut sent);
        }
        let longest = sent.windows(2).map(|two| two[1] - two[0]).max();
        assert_eq!(longest, Some(2), "{sent:?}");
    }

    /// Servers as slow as they may be to tell of a session: the shortest that they allow has two ticks.
    #[test]
    fn a_session_is_believed_in_no_longer_than_servers_keep_it_that_are_cut_off() {
        let settings = Settings::new(Namespace::new("n").unwrap(), CoordinatorId::new("c").unwrap());
        for (tick, session) in [(5000, 10_000), (3000, 6000), (2000, 10_000), (200, 6000), (2000, 40_000)] {
            let span = Duration::from_millis(session);
            let believed = u64::try_from(settings.believed(span).as_millis()).unwrap();
            let every = u64::try_from(Settings::proof_every(span).as_millis()).unwrap();
            for first in (0..every + tick).step_by(37) {
                let sent: Vec<u64> = (0..40).map(|n| first + n * every).collect();
                let last = first + 39 * every;
                // Cut off from the leader right after the last one went through.
                let asked = (1..).map(|n| n * tick / 2).take_while(|asked| *asked < last);
                let is_told = |asked: &u64| sent.iter().any(|s| s + tick / 2 > *asked && s <= asked);
                let told = asked.filter(is_told).max().expect("it was asked before");
                assert!(last + believed < told + session, "tick {tick}, session {session}, from {first} on");
            }
        }
    }
}
