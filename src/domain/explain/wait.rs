//! What an item does now, what it waits for, and when it runs next.

use std::time::Duration;

use crate::id::InstanceId;
use crate::item::{Crashed, Record, Records, Running, State};
use crate::ownership::Standing;
use crate::time::Time;
use crate::view::Timeline;

use super::words::{coming, count, past, span};
use super::{Page, Part, Sentence, Subject};

/// How long a scheduled time may be in progress: its host records it, and sends it to its worker.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

impl Subject<'_> {
    /// What it does, and what it waits for.
    pub(super) fn waits(&self, records: &Records) -> Vec<Sentence> {
        let Some(record) = self.record else {
            let text = "It has no record yet: the leader writes one, and nothing runs before.";
            return vec![Sentence::new(Part::Waits, text)];
        };
        let mut said = self.switches();
        match &record.state {
            State::Running(run) => said.extend(self.running(record, run)),
            State::Crashed(crashed) => said.extend(self.crashed(crashed)),
            State::Idle => {}
        }
        said.extend(self.marked(record));
        said.extend(self.trigger());
        said.extend(self.due(record, records));
        said.extend(self.silent(record));
        if said.is_empty() {
            said.push(Sentence::new(Part::Waits, "Nothing is due, and nothing blocks it."));
        }
        said.extend(self.last(record));
        said
    }

    /// When it runs next.
    pub(super) fn next(&self) -> Sentence {
        let (job, now) = (&self.job.name, self.facts.now);
        let config = self.job.spec.config();
        let Some(cron) = config.cron.as_deref() else {
            let text = "It has no schedule: it runs only when triggered manually.";
            return Sentence::new(Part::Next, text).with("schedule", &Page::Config(job));
        };
        let by = format!("{cron} in {}", config.zone());
        let timeline = Timeline::new(self.job);
        let next = match self.record {
            Some(record) => timeline.of(record).next(record.last_fire.max(now)),
            None => timeline.next(now),
        };
        let text = match next {
            None => format!("Nothing more is scheduled by {by}."),
            Some(next) => self.next_at(next, &by),
        };
        Sentence::new(Part::Next, text).with(by, &Page::Config(job))
    }

    fn next_at(&self, next: Time, by: &str) -> String {
        let at = coming(next, self.facts.now);
        let held = self.job.paused
            || self.job.rules.disabled
            || self.job.sharding.disabled_items.contains(&self.item);
        if held {
            return format!(
                "By its schedule, {by}, it would run at {at}; held so, that time is recorded as missed."
            );
        }
        if self.live_owner().is_none() {
            return format!("By its schedule, {by}, it runs at {at}, if somebody owns it by then.");
        }
        let busy = self.record.is_some_and(|record| !record.state.is_idle());
        match (busy, self.job.rules.misfire) {
            (false, _) => format!("It runs next at {at}, by {by}."),
            (true, true) => {
                format!("It runs next at {at}, by {by}; if it is still busy then, right after that.")
            }
            (true, false) => {
                format!("It runs next at {at}, by {by}; if it is still busy then, that time is skipped.")
            }
        }
    }

    /// What has been switched off.
    fn switches(&self) -> Vec<Sentence> {
        let job = &self.job.name;
        let mut said = Vec::new();
        let mut say = |text: String| said.push(Sentence::new(Part::Waits, text).with(job, &Page::Job(job)));
        if self.job.rules.disabled {
            say(format!("{job} is disabled: nothing starts until it is enabled."));
        }
        if self.job.sharding.disabled_items.contains(&self.item) {
            say(format!("Item {} of {job} is disabled: nothing starts until it is enabled.", self.item));
        }
        if self.job.paused {
            say(format!(
                "{job} is paused: scheduled times are recorded as missed (paused) until it is resumed."
            ));
        }
        if self.job.necessary.is_some() {
            say(format!("The items of {job} are about to be reassigned."));
        }
        said
    }

    fn running(&self, record: &Record, run: &Running) -> Vec<Sentence> {
        let (job, token, now) = (&self.job.name, record.token.0, self.facts.now);
        let mut text = format!(
            "It runs: {} of {}, token {token}, on {} since {}",
            run.source,
            run.fire,
            run.instance,
            past(run.since, now)
        );
        let owner = self.job.sharding.owner(self.item);
        if owner.is_some_and(|owner| *owner != run.instance) {
            text.push_str("; its owner gets it from the next run on");
        }
        let said = Sentence::new(Part::Waits, format!("{text}."));
        let said = said.with(format!("token {token}"), &Page::Run(job, self.item, record.token));
        let mut all = vec![said.with(&run.instance, &Page::Instance(&run.instance))];
        if run.held {
            let text = "It is sent to its worker once the callback for the start of all items of the fire has been answered.";
            all.push(Sentence::new(Part::Waits, text));
        }
        if run.cancelled {
            all.push(Sentence::new(
                Part::Waits,
                "It was cancelled: it ends as soon as its worker has stopped it.",
            ));
        }
        all.extend(self.lost(&run.instance));
        all
    }

    /// The worker of a run in flight is not connected.
    fn lost(&self, instance: &InstanceId) -> Option<Sentence> {
        let standing = self.standing(instance);
        let away = matches!(standing, Standing::Gone | Standing::Away)
            && !self.facts.attached.contains_key(instance);
        if !away {
            return None;
        }
        let then = match self.job.rules.failover {
            true => "then it counts as crashed, and another instance runs it again",
            false => "then it counts as crashed; failover is off, so it is not run again",
        };
        let text = format!("{instance} is not attached: the run stands until its lease is over, {then}.");
        Some(Sentence::new(Part::Waits, text).with(instance, &Page::Instance(instance)))
    }

    fn crashed(&self, crashed: &Crashed) -> Vec<Sentence> {
        let now = self.facts.now;
        let able = self.job.instances.keys().any(|instance| self.standing(instance) == Standing::Enabled);
        let waits = match able {
            true => "it is run again as soon as an enabled instance has a free slot",
            false => "no enabled instance is there to run it again",
        };
        let died = match crashed.deaths {
            0 | 1 => String::new(),
            deaths => format!(
                " So many workers died while they ran it: {deaths}; after {} it is given up.",
                self.job.spec.policy().max_failovers
            ),
        };
        let text = format!(
            "Its run of {} crashed on {} at {}: {waits}.{died}",
            crashed.fire,
            crashed.instance,
            past(crashed.since, now)
        );
        vec![Sentence::new(Part::Waits, text).with(&crashed.instance, &Page::Instance(&crashed.instance))]
    }

    /// Scheduled times that came while the item was busy.
    fn marked(&self, record: &Record) -> Option<Sentence> {
        let marked = record.misfire?;
        let waits = match (&record.state, self.job.paused) {
            (_, true) => "until the job is resumed",
            (State::Idle, false) => "for a free slot",
            (_, false) => "for the run before it to end",
        };
        let text = format!(
            "Scheduled times up to {marked} came while it was busy: they are merged into one run, which waits {waits}."
        );
        let job = &self.job.name;
        Some(Sentence::new(Part::Waits, text).with("Scheduled times", &Page::Fires(job)))
    }

    fn trigger(&self) -> Option<Sentence> {
        let trigger = self.job.triggers.get(&self.item)?;
        let text = format!(
            "A manual trigger of {} waits for it ({}).",
            past(trigger.at, self.facts.now),
            trigger.id
        );
        Some(Sentence::new(Part::Waits, text))
    }

    /// A scheduled time that has passed, and has neither started nor been recorded.
    fn due(&self, record: &Record, records: &Records) -> Option<Sentence> {
        let now = self.facts.now;
        if self.job.paused || self.job.rules.disabled || self.job.sharding.disabled_items.contains(&self.item)
        {
            return None;
        }
        let due = Timeline::new(self.job).of(record).next(record.last_fire).filter(|due| *due <= now)?;
        let late = now.since(due);
        let job = &self.job.name;
        let why = match (self.live_owner(), &record.state) {
            (_, State::Running(_) | State::Crashed(_)) if late < ON_ITS_WAY => return None,
            (_, State::Running(_) | State::Crashed(_)) => "the run before it has not ended".to_owned(),
            (None, State::Idle) => match self.job.sharding.owner(self.item) {
                None => "nobody owns it".to_owned(),
                Some(owner) => format!("its owner, {owner}, {}", self.standing(owner)),
            },
            (Some(owner), State::Idle) => match self.host(owner) {
                Some(why) => why,
                None if late < ON_ITS_WAY => "its host is about to start it".to_owned(),
                None => self.slots(owner, records),
            },
        };
        let text = format!("{due} is due for {}: {why}.", span(late));
        let said =
            Sentence::new(Part::Waits, text).with(due, &Page::Fires(job)).with("coordinator", &Page::Cluster);
        let owner = self.job.sharding.owner(self.item);
        Some(owner.into_iter().fold(said, |said, owner| said.with(owner, &Page::Instance(owner))))
    }

    /// Why the coordinator of an instance fires nothing.
    fn host(&self, owner: &InstanceId) -> Option<String> {
        let host = &self.job.instances.get(owner)?.node.as_ref()?.host;
        let why = self.facts.idle.get(host)?;
        Some(format!("its coordinator {host} fires nothing, since {why}"))
    }

    fn slots(&self, owner: &InstanceId, records: &Records) -> String {
        let slots =
            self.job.instances.get(owner).and_then(|seen| seen.node.as_ref()).map_or(0, |node| node.slots);
        let runs = records.values().filter_map(|(_, record)| record.running());
        let taken = runs.filter(|run| run.instance == *owner).count();
        format!(
            "it waits for a free slot of {owner}, which has {} over all its jobs; {} takes {taken} of them",
            count(slots as usize, "slot"),
            self.job.name
        )
    }

    /// Its last fire lies in the future.
    fn silent(&self, record: &Record) -> Option<Sentence> {
        let until = record.last_fire;
        let ahead = until.since(self.facts.now);
        (ahead > ON_ITS_WAY).then(|| {
            let text = format!(
                "Its last fire, {until}, lies in the future: a clock was ahead when it was written. It is silent until then; a manual trigger runs it."
            );
            Sentence::new(Part::Waits, text)
        })
    }

    fn last(&self, record: &Record) -> Option<Sentence> {
        let last = record.last.as_ref()?;
        let job = &self.job.name;
        let text = format!(
            "Its last run, {} of {}, token {}, {} on {} at {}.",
            last.source,
            last.fire,
            last.token.0,
            last.outcome.as_str().replace('_', " "),
            last.instance,
            past(last.at, self.facts.now)
        );
        let said = Sentence::new(Part::Waits, text);
        let said = said.with(format!("token {}", last.token.0), &Page::Run(job, self.item, last.token));
        Some(said.with(&last.instance, &Page::Instance(&last.instance)))
    }
}
