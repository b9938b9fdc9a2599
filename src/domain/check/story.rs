//! An item's entries explain how its old record became the new one, by rows of the transition table and nothing else;
//! each scheduled time appears exactly once.

use super::Case;
use crate::id::{Item, Token};
use crate::item::{ItemEvent, Missed, Outcome, Record, Running, Source, State};
use crate::plan::{Entry, FireResult, Reported, times_out};
use crate::time::Time;
use crate::txn::Guard;

pub(super) fn check(case: &mut Case<'_>, item: Item) {
    let Some((_, before)) = case.before.get(&item) else {
        return case.expect(case.entries(item).next().is_none(), item, || "it has no record".into());
    };
    let mut story = Story { case, item, record: (**before).clone(), starts: 0 };
    story.silent();
    let entries: Vec<&Entry> = story.case.entries(item).collect();
    for entry in entries {
        story.step(entry);
    }
    let (record, starts) = (story.record, story.starts);
    let after = case.after(item).unwrap_or(before);
    case.expect(*after == record, item, || format!("the entries lead to {record:?}, written is {after:?}"));
    case.expect(starts <= 1, item, || format!("{starts} runs are started"));
    let (token, given) = (before.token.0, case.facts.given.0);
    let expected = if starts == 0 { token } else { token.max(given) + starts };
    case.expect(after.token.0 == expected, item, || {
        format!("the token is {} after {starts} starts, above {token} and {given}", after.token)
    });
    if case.job.rules.monitor {
        let open = |r: &Record| {
            r.counters.fired.wrapping_sub(r.counters.ended()).wrapping_sub(u64::from(r.running().is_some()))
        };
        case.expect(open(before) == open(after), item, || "fired is not ended plus in flight".into());
    }
}

struct Story<'c, 'a> {
    case: &'c mut Case<'a>,
    item: Item,
    record: Record,
    starts: u64,
}

impl Story<'_, '_> {
    fn wrong(&mut self, what: String) {
        self.case.expect(false, self.item, || what);
    }

    fn apply(&mut self, event: &ItemEvent) {
        match self.record.apply(event) {
            Ok(next) => self.record = next,
            Err(illegal) => self.wrong(illegal.to_string()),
        }
    }

    /// Changes without an entry: a crashed run that is given up, a last fire that is set back.
    fn silent(&mut self) {
        let Some(written) = self.case.written(self.item) else { return };
        let now = self.case.facts.now;
        if self.record.crashed().is_some() && !self.case.fails_over(self.item) && written.crashed().is_none()
        {
            self.apply(&ItemEvent::GiveUp { at: now });
        }
        if self.record.last_fire > self.case.facts.furthest_last_fire
            && written.last_fire < self.record.last_fire
        {
            let config = self.case.job.spec.config();
            let schedule = (config.cron.clone().unwrap_or_default(), config.zone().to_owned());
            self.apply(&ItemEvent::Cap { last_fire: now, schedule });
        }
    }

    fn step(&mut self, entry: &Entry) {
        match entry {
            Entry::Started { token, run, .. } => self.started(*token, run),
            Entry::Ended { token, run, outcome, at, requeued, .. } => {
                let now = self.case.facts.now;
                self.case.expect(*at == now, self.item, || "a run ends at another time than now".into());
                self.ended(*token, run, *outcome, *requeued);
            }
            Entry::NotRun { first, latest, count, result, .. } => {
                self.not_run(*first, *latest, *count, *result)
            }
        }
    }

    fn started(&mut self, token: Token, run: &Running) {
        self.starts += 1;
        if run.source == Source::NormalTrigger {
            let due = self.case.next_due(&self.record, self.record.last_fire);
            self.case.expect(due == Some(run.fire), self.item, || {
                format!("{} is started, the oldest scheduled time is {due:?}", run.fire)
            });
        }
        if matches!(run.source, Source::NormalTrigger | Source::Manual) && !self.case.job.paused {
            let marked = self.record.misfire;
            self.case
                .expect(marked.is_none(), self.item, || format!("{} starts before its misfire", run.source));
        }
        let claims = run.source == Source::Failover;
        self.record = self.record.above(self.case.facts.given);
        self.apply(&if claims { ItemEvent::Claim(run.clone()) } else { ItemEvent::Start(run.clone()) });
        let raised = self.record.token;
        self.case.expect(raised == token, self.item, || format!("token {token} is sent, {raised} written"));
        let told =
            self.case.plan.unmonitored.iter().any(|(item, t, r)| (*item, *t, r) == (self.item, token, run));
        let monitor = self.case.job.rules.monitor;
        self.case.expect(told != monitor, self.item, || {
            format!("monitored {monitor}, listed as unmonitored {told}")
        });
        if !monitor {
            self.record.state = State::Idle;
        }
    }

    fn ended(&mut self, token: Token, run: &Running, outcome: Outcome, requeued: bool) {
        let (item, facts) = (self.item, self.case.facts);
        let in_flight = self.record.running() == Some(run) && self.record.token == token;
        self.case.expect(in_flight, item, || "a run ends that was not in flight".into());
        let report = self.case.report_of(item, token, run);
        let buried = facts.dead.contains(&run.worker);
        let (expected, again) = match report.map(|report| report.ended) {
            Some(Reported::Done(outcome)) => (outcome, false),
            None if !buried => (Outcome::TimedOut, false),
            Some(Reported::Aborted | Reported::NotStarted | Reported::Forgotten(_)) | None => {
                (Outcome::Crashed, true)
            }
            Some(Reported::HandedBack | Reported::HandedBackByHost(_)) => (Outcome::Cancelled, true),
            Some(Reported::Skipped) => (Outcome::Cancelled, false),
        };
        let of_worker = report.is_some_and(|report| !matches!(report.ended, Reported::Forgotten(_)));
        let outlives = of_worker || run.deaths < self.case.job.spec.policy().max_failovers;
        let requeue = again && self.case.fails_over(item) && !run.cancelled && outlives;
        self.case.expect((outcome, requeued) == (expected, requeue), item, || {
            format!("it ends as {outcome}, put up again: {requeued}, rather than {expected}, {requeue}")
        });
        if report.is_none() {
            let over =
                times_out(self.case.job, run).is_some_and(|at| at.plus(facts.timeout_grace) <= facts.now);
            self.case.expect(buried || over, item, || "a run ends without report, death and timeout".into());
            let attached = facts.hosted.get(&run.instance).map(|hosted| hosted.attachment);
            let guard = match attached.filter(|_| !buried) {
                Some(version) => Guard::Attachment(run.worker.clone(), version),
                None => Guard::NoAttachment(run.worker.clone()),
            };
            self.case.expect(self.case.has(&guard), item, || "a death or a timeout is not guarded".into());
        }
        let forgotten = report.is_some_and(|report| matches!(report.ended, Reported::Forgotten(_)));
        let (at, reported) = (facts.now, report.is_some() && !forgotten);
        self.apply(&ItemEvent::End { outcome, at, reported, requeue: requeued });
    }

    fn not_run(&mut self, first: Time, latest: Time, count: u64, result: FireResult) {
        let last = self.record.last_fire;
        // A wrong clock has left a misfire mark in the future.
        if latest <= last || self.record.misfire == Some(latest) && latest > self.case.facts.now {
            return self.dropped(first, latest, count, result);
        }
        let (mut counted, mut due) = (0, last);
        while let Some(next) = self.case.next_due(&self.record, due).filter(|next| *next <= latest) {
            if counted == 0 {
                self.case
                    .expect(next == first, self.item, || format!("{next} is passed over before {first}"));
            }
            (counted, due) = (counted + 1, next);
        }
        let now = self.case.facts.now;
        self.case.expect(due == latest && latest <= now, self.item, || {
            format!("{latest} is not a scheduled time up to {now}")
        });
        self.case.expect(counted == count, self.item, || {
            format!("{counted} scheduled times from {first} to {latest} are reported as {count}")
        });
        self.allowed(latest, result);
        self.apply(&match result {
            FireResult::Misfired => ItemEvent::Misfire { latest, count },
            FireResult::Skipped => ItemEvent::Skip { latest, count },
            FireResult::Missed(reason) => ItemEvent::Miss { latest, count, reason },
        });
    }

    /// A misfire mark that will not be run.
    fn dropped(&mut self, first: Time, latest: Time, count: u64, result: FireResult) {
        let surplus = self.case.job.sharding.surplus_until(self.item).is_some_and(|until| latest <= until);
        let reason = if self.case.disabled(self.item) { Missed::Disabled } else { Missed::NoWorker };
        let fits = result == FireResult::Missed(reason)
            && (self.case.disabled(self.item) || surplus)
            && (first, count) == (latest, 1)
            && self.record.misfire == Some(latest);
        self.case.expect(fits, self.item, || format!("{first} to {latest} are reported again"));
        self.apply(&ItemEvent::DropMisfire { reason });
    }

    /// Whether the owner is able to run it, but has no free slot, now or with this plan. A run that is taken away keeps
    /// its slot: its worker may continue with it.
    fn no_slot(&self) -> bool {
        let owner = self.case.job.sharding.owner(self.item);
        let Some((owner, hosted)) = owner.and_then(|owner| self.case.facts.hosted.get_key_value(owner))
        else {
            return false;
        };
        let (mut started, mut ended) = (0, false);
        for entry in &self.case.plan.entries {
            match entry {
                Entry::Started { run, .. } => started += usize::from(run.instance == *owner),
                Entry::Ended { item, token, run, outcome, .. } => {
                    let keeps_its_slot = self.case.is_taken_away(*item, *token, run, *outcome);
                    ended |= run.instance == *owner && !keeps_its_slot;
                }
                Entry::NotRun { .. } => {}
            }
        }
        !ended && hosted.ready && started + hosted.others.len() >= hosted.free as usize
    }

    /// Whether scheduled times up to `latest` may get this result now.
    fn allowed(&mut self, latest: Time, result: FireResult) {
        let (job, facts, item) = (self.case.job, self.case.facts, self.item);
        if let Some(gap) = job.sharding.gap_of(item, latest) {
            return self.case.expect(result == FireResult::Missed(gap.reason), item, || {
                format!("{latest} lies in a gap and is {result}")
            });
        }
        let open = !job.paused && !self.case.disabled(item);
        self.case.expect(open, item, || format!("{latest} is {result} while nothing is to be run"));
        let old = latest.plus(job.rules.catch_up) < facts.now;
        let (busy, late) = match &self.record.state {
            State::Running(run) => (true, latest < run.since),
            State::Crashed(_) => (true, false),
            State::Idle => (self.case.in_user_code(item) || (self.starts > 0 && !job.rules.monitor), false),
        };
        self.case
            .expect(!late || old, item, || format!("{latest} may still wait behind the run and is {result}"));
        let next_has_come = self.case.next_due(&self.record, latest).is_some_and(|next| next <= facts.now);
        let superseded = !busy && next_has_come && self.no_slot();
        let fits = match result {
            FireResult::Misfired => (busy || superseded) && job.rules.misfire || old && job.rules.run_late,
            FireResult::Skipped => busy && !job.rules.misfire,
            FireResult::Missed(Missed::NoSlot) => !busy && (old || superseded && !job.rules.misfire),
            FireResult::Missed(Missed::Down) => !busy && old && latest < facts.up_since,
            FireResult::Missed(Missed::NoWorker) => {
                !busy && old && facts.gained.get(&item).is_some_and(|gained| latest < *gained)
            }
            FireResult::Missed(Missed::TooLate) => !busy && old,
            FireResult::Missed(_) => false,
        };
        self.case.expect(fits, item, || {
            format!("{latest} is {result} (busy {busy}, old {old}, superseded {superseded})")
        });
    }
}
