//! The book of alarms: which are raised, which are over, and what each receiver was sent. Pure: facts and `now` come in, letters go out.
//!
//! | it holds | the receiver was notified | then |
//! | --- | --- | --- |
//! | yes | no | it is sent, unless it is silenced |
//! | yes | yes | nothing, or it is sent again after `repeat` |
//! | no | yes | its end is sent, silenced or not |
//! | no | no | nothing: a receiver that was not notified needs no end |
//!
//! One coordinator speaks for a job. The coordinator that raised an alarm follows it to its end, even after another one has come to
//! speak for the job: if the alarm is over by then, the first one sends the end; if it goes on, the other one raises it under the
//! same key, and the first one drops it silently.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

use super::facts::{Coordinator, Job, LateStart};
use super::handler;
use super::kind::AlarmKind;
use super::letter::{Alarm, Letter};
use super::rules::{Condition, Memory, of_coordinator, of_job};
use super::settings::{Receiver, Rule, Settings};
use super::silence::{MOST, Silence};

/// Most alarms at a time. One more is not raised before another is over.
pub const MOST_ALARMS: usize = 10_000;
/// Alarms that are over, and are still shown.
const LATELY: usize = 200;
/// How long one that is over waits for a receiver that cannot be reached.
const GIVE_UP: Duration = Duration::from_secs(86_400);
/// The pause after the first failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// An alarm, and the receivers that were notified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// It.
    pub alarm: Alarm,
    /// Receivers that were notified.
    #[serde(rename = "told")]
    notified: BTreeMap<String, Notified>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Notified {
    at: Time,
    /// That it is over.
    over: bool,
}

impl Held {
    /// The receivers that were notified of it, and not yet of its end.
    pub fn notified(&self) -> impl Iterator<Item = &str> {
        self.notified.iter().filter(|(_, last)| !last.over).map(|(name, _)| name.as_str())
    }
}

/// What outlives the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    alarms: BTreeMap<String, Held>,
    lately: VecDeque<Alarm>,
    silences: BTreeMap<String, Silence>,
    memories: BTreeMap<JobName, Memory>,
}

/// How it goes with a receiver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Post {
    /// Failures since the last success.
    pub failures: u32,
    /// Before then it is not tried again.
    pub not_before: Option<Time>,
    /// What went wrong last.
    pub error: Option<String>,
}

/// The book.
#[derive(Debug)]
pub struct Book {
    settings: Settings,
    namespace: String,
    /// Who this is, to people.
    coordinator: String,
    kept: Kept,
    /// Conditions that have to hold a little longer, and since when they do.
    pending: BTreeMap<String, Time>,
    posts: BTreeMap<String, Post>,
    /// Jobs that name a receiver themselves, or try to.
    own: BTreeMap<JobName, Own>,
    full: bool,
}

/// A job's own error handler.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Own {
    handler: (String, BTreeMap<String, String>),
    receiver: Result<Arc<Receiver>, String>,
}

/// What to send to a receiver now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// This.
    Now(Box<Letter>),
    /// Nothing before then.
    At(Time),
    /// Nothing.
    Nothing,
}

impl Book {
    /// A book as it was when it was closed.
    pub fn open(settings: Settings, namespace: String, coordinator: String, kept: Kept) -> Self {
        let (pending, posts, own) = Default::default();
        Self { settings, namespace, coordinator, kept, pending, posts, own, full: false }
    }

    /// What outlives the process.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    #[allow(missing_docs)]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether anything of jobs is looked for. Jobs may name receivers themselves as long as hosts for that are allowed.
    pub fn looks_at_jobs(&self) -> bool {
        !self.settings.job_hosts.is_empty() || self.settings.rules.iter().any(|rule| rule.kind.of_jobs())
    }

    /// Takes in a job as it is.
    pub fn look_at(&mut self, job: &Job, now: Time) {
        self.learn(job);
        let mut memory = self.kept.memories.remove(&job.name).unwrap_or_default();
        memory.see(job, now);
        let rules: Vec<Rule> = self.rules_of(&job.name);
        let mut known = BTreeSet::new();
        for rule in &rules {
            let key = format!("{}:{}", rule.name, job.name);
            let condition = of_job(rule, job, &memory, now);
            // Only who saw a run begin knows that it began late.
            let speaks = job.speaks || rule.kind == AlarmKind::Late;
            self.evaluate(&key, rule, Some(&job.name), condition, speaks, now);
            known.insert(key);
        }
        if !memory.is_empty() && !rules.is_empty() {
            self.kept.memories.insert(job.name.clone(), memory);
        }
        // Rules come and go with the configuration.
        let is_its = |held: &Held| held.alarm.job_name.as_ref() == Some(&job.name);
        let gone = self.kept.alarms.iter().filter(|(key, held)| is_its(held) && !known.contains(*key));
        let gone: Vec<String> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.resolve(key, now));
        self.tidy(now);
    }

    /// Takes in which jobs there are: alarms of others are over.
    pub fn jobs(&mut self, jobs: &BTreeSet<JobName>, now: Time) {
        let alarms = self.kept.alarms.iter();
        let is_gone = |held: &Held| held.alarm.job_name.as_ref().is_some_and(|job| !jobs.contains(job));
        let gone: Vec<String> =
            alarms.filter(|(_, held)| is_gone(held)).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.resolve(key, now));
        self.kept.memories.retain(|job, _| jobs.contains(job));
        self.own.retain(|job, _| jobs.contains(job));
        self.kept.silences.retain(|_, silence| now < silence.until);
        self.tidy(now);
    }

    /// Takes in how this coordinator is.
    pub fn look_at_coordinator(&mut self, coordinator: &Coordinator, now: Time) {
        let rules: Vec<Rule> =
            self.settings.rules.iter().filter(|rule| !rule.kind.of_jobs()).cloned().collect();
        let mut known = BTreeSet::new();
        for rule in &rules {
            let key = format!("{}@{}", rule.name, coordinator.name);
            self.evaluate(&key, rule, None, of_coordinator(rule, coordinator, now), true, now);
            known.insert(key);
        }
        let gone = self.kept.alarms.iter().filter(|(_, held)| held.alarm.job_name.is_none());
        let gone: Vec<String> =
            gone.filter(|(key, _)| !known.contains(*key)).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.resolve(key, now));
        self.tidy(now);
    }

    /// A run began late here. Whether too late, the rules say.
    pub fn late(&mut self, start: &LateStart) -> bool {
        let mut late = self.settings.rules.iter().filter(|rule| rule.kind == AlarmKind::Late);
        let matters = late.any(|rule| rule.is_for(&start.job) && start.by >= rule.after);
        if matters {
            self.kept.memories.entry(start.job.clone()).or_default().late(start);
        }
        matters
    }

    fn learn(&mut self, job: &Job) {
        let Some(configured) = &job.handler else {
            self.own.remove(&job.name);
            return;
        };
        if self.own.get(&job.name).is_some_and(|own| own.handler == *configured) {
            return;
        }
        let receiver = handler::receiver(&job.name, &configured.0, &configured.1, &self.settings.job_hosts);
        match receiver {
            Some(receiver) => {
                let own = Own { handler: configured.clone(), receiver: receiver.map(Arc::new) };
                self.own.insert(job.name.clone(), own);
            }
            None => drop(self.own.remove(&job.name)),
        }
    }

    /// Whether there is anything to look for in a job.
    pub fn has_rules(&self, job: &JobName) -> bool {
        self.own.contains_key(job) || self.settings.rules.iter().any(|rule| rule.is_for(job))
    }

    fn rules_of(&self, job: &JobName) -> Vec<Rule> {
        let mut rules: Vec<Rule> =
            self.settings.rules.iter().filter(|rule| rule.is_for(job)).cloned().collect();
        if let Some(Ok(receiver)) = self.own.get(job).map(|own| &own.receiver) {
            let receivers = vec![receiver.name.clone()];
            rules.push(Rule { name: handler::RULE.to_owned(), receivers, ..Rule::new(AlarmKind::Failed) });
        }
        rules
    }

    fn evaluate(
        &mut self,
        key: &str,
        rule: &Rule,
        job: Option<&JobName>,
        condition: Option<Condition>,
        speaks: bool,
        now: Time,
    ) {
        let Some(condition) = condition else {
            self.pending.remove(key);
            return self.resolve(key, now);
        };
        if let Some(held) = self.kept.alarms.get_mut(key)
            && held.alarm.resolved_at.is_none()
        {
            held.alarm.text = condition.text;
            held.alarm.severity = rule.severity;
            held.alarm.receivers.clone_from(&rule.receivers);
            if !speaks {
                // Whoever speaks now raises it.
                self.kept.alarms.remove(key);
            }
            return;
        }
        if !speaks {
            self.pending.remove(key);
            return;
        }
        let since = *self.pending.entry(key.to_owned()).or_insert(now);
        if now.since(since) >= condition.hold {
            self.raise(key, rule, job, condition.text, since, now);
        }
    }

    fn raise(&mut self, key: &str, rule: &Rule, job: Option<&JobName>, text: String, since: Time, now: Time) {
        if self.kept.alarms.len() >= MOST_ALARMS && !self.kept.alarms.contains_key(key) {
            if !std::mem::replace(&mut self.full, true) {
                tracing::error!("{MOST_ALARMS} alarms are raised: others wait until one of them is over");
            }
            return;
        }
        self.pending.remove(key);
        let alarm = Alarm {
            key: key.to_owned(),
            alarm: rule.kind,
            rule: rule.name.clone(),
            severity: rule.severity,
            job_name: job.cloned(),
            text,
            since,
            raised_at: now,
            resolved_at: None,
            receivers: rule.receivers.clone(),
        };
        tracing::warn!(alarm = %alarm.alarm, key, "alarm raised: {}", alarm.text);
        // A receiver that was not yet sent its end needs nothing; one that was is notified again.
        let mut notified = self.kept.alarms.remove(key).map(|held| held.notified).unwrap_or_default();
        notified.retain(|_, last| !last.over);
        self.kept.alarms.insert(key.to_owned(), Held { alarm, notified });
    }

    fn resolve(&mut self, key: &str, now: Time) {
        let Some(held) = self.kept.alarms.get_mut(key).filter(|held| held.alarm.resolved_at.is_none()) else {
            return;
        };
        held.alarm.resolved_at = Some(now);
        tracing::info!(alarm = %held.alarm.alarm, key, "alarm resolved: {}", held.alarm.text);
        self.kept.lately.push_front(held.alarm.clone());
        self.kept.lately.truncate(LATELY);
    }

    /// Drops what everybody knows to be over.
    fn tidy(&mut self, now: Time) {
        self.kept.alarms.retain(|_, held| match held.alarm.resolved_at {
            None => true,
            Some(at) => now.since(at) < GIVE_UP && held.notified.values().any(|last| !last.over),
        });
        self.full &= self.kept.alarms.len() >= MOST_ALARMS;
    }

    /// All receivers: those that are configured, and those that jobs name.
    pub fn receivers(&self) -> Vec<Arc<Receiver>> {
        let own = self.own.values().filter_map(|own| own.receiver.as_ref().ok().cloned());
        self.settings.receivers.iter().cloned().map(Arc::new).chain(own).collect()
    }

    /// The receiver that jobs name, of this name.
    pub fn own_receivers(&self) -> Vec<Arc<Receiver>> {
        self.own.values().filter_map(|own| own.receiver.as_ref().ok().cloned()).collect()
    }

    /// Jobs whose own receiver cannot be used, and why.
    pub fn refused(&self) -> Vec<(JobName, String)> {
        let refused =
            |(job, own): (&JobName, &Own)| Some((job.clone(), own.receiver.as_ref().err()?.clone()));
        self.own.iter().filter_map(refused).collect()
    }

    /// What to send to a receiver. It stays the same until [`Book::delivered`] or [`Book::failed`] records the outcome.
    pub fn due(&self, receiver: &Receiver, now: Time) -> Due {
        if let Some(at) =
            self.posts.get(&receiver.name).and_then(|post| post.not_before).filter(|at| now < *at)
        {
            return Due::At(at);
        }
        let for_them = self.kept.alarms.values().filter(|held| self.is_for(&held.alarm, receiver));
        let wanted: Vec<(&Held, Time)> =
            for_them.filter_map(|held| Some((held, self.wants(held, &receiver.name, now)?))).collect();
        let Some(first) = wanted.iter().map(|(_, at)| *at).min() else { return Due::Nothing };
        // A clock that was set back delays nothing for longer than that.
        let ready = first.min(now).plus(self.settings.group);
        if now < ready {
            return Due::At(ready);
        }
        let wanted: Vec<&Held> =
            wanted.into_iter().filter(|(_, at)| *at <= now).map(|(held, _)| held).collect();
        let mut chosen: Vec<&Alarm> = wanted.iter().map(|held| &held.alarm).collect();
        chosen.sort_by_key(|alarm| (alarm.resolved_at.is_some(), std::cmp::Reverse(alarm.severity)));
        let more = chosen.len().saturating_sub(receiver.form.most());
        chosen.truncate(receiver.form.most());
        let (resolved, raised): (Vec<&Alarm>, Vec<&Alarm>) =
            chosen.into_iter().partition(|alarm| alarm.resolved_at.is_some());
        let owned = |alarms: Vec<&Alarm>| alarms.into_iter().cloned().collect();
        let letter = Letter { raised: owned(raised), resolved: owned(resolved), more, ..self.letter(now) };
        Due::Now(Box::new(letter))
    }

    /// An empty one.
    pub fn letter(&self, now: Time) -> Letter {
        Letter {
            test: false,
            namespace: self.namespace.clone(),
            coordinator: self.coordinator.clone(),
            link: self.settings.link.clone(),
            at: now,
            raised: Vec::new(),
            resolved: Vec::new(),
            more: 0,
        }
    }

    fn is_for(&self, alarm: &Alarm, receiver: &Receiver) -> bool {
        match &alarm.receivers[..] {
            [] => self.settings.receivers.iter().any(|known| known.name == receiver.name),
            some => some.contains(&receiver.name),
        }
    }

    /// Since when an alarm has news that a receiver has not been sent.
    fn wants(&self, held: &Held, receiver: &str, now: Time) -> Option<Time> {
        let last = held.notified.get(receiver);
        match (held.alarm.resolved_at, last) {
            (Some(resolved), Some(last)) => (!last.over).then_some(resolved),
            (Some(_), None) => None,
            (None, _) if self.is_silenced(&held.alarm, now) => None,
            (None, None) => Some(held.alarm.raised_at),
            (None, Some(last)) => self.settings.repeat.map(|repeat| last.at.plus(repeat)),
        }
    }

    /// Whether a silence covers it.
    pub fn is_silenced(&self, alarm: &Alarm, now: Time) -> bool {
        self.kept.silences.values().any(|silence| silence.covers(alarm, now))
    }

    /// A receiver has accepted a letter.
    pub fn delivered(&mut self, receiver: &str, letter: &Letter, now: Time) {
        self.posts.remove(receiver);
        for alarm in letter.alarms() {
            if let Some(held) = self.kept.alarms.get_mut(&alarm.key) {
                let notified = Notified { at: now, over: alarm.resolved_at.is_some() };
                held.notified.insert(receiver.to_owned(), notified);
            }
        }
        self.tidy(now);
    }

    /// A letter could not be delivered: it, or what holds by then, is tried again after a pause.
    pub fn failed(&mut self, receiver: &str, error: &str, now: Time) {
        let post = self.posts.entry(receiver.to_owned()).or_default();
        let pause = FIRST_PAUSE.saturating_mul(1 << post.failures.min(16)).min(LONGEST_PAUSE);
        post.failures = post.failures.saturating_add(1);
        post.not_before = Some(now.plus(pause));
        post.error = Some(error.to_owned());
    }

    /// How it goes with a receiver.
    pub fn post(&self, receiver: &str) -> Post {
        self.posts.get(receiver).cloned().unwrap_or_default()
    }

    /// Makes a silence, or another of one; false: there are too many.
    pub fn silence(&mut self, silence: Silence, now: Time) -> bool {
        self.kept.silences.retain(|_, silence| now < silence.until);
        let room = self.kept.silences.len() < MOST || self.kept.silences.contains_key(&silence.id);
        if room {
            self.kept.silences.insert(silence.id.clone(), silence);
        }
        room
    }

    /// Removes a silence; `None`: it does not exist.
    pub fn unsilence(&mut self, id: &str) -> Option<Silence> {
        self.kept.silences.remove(id)
    }

    /// Those in force.
    pub fn silences(&self, now: Time) -> Vec<Silence> {
        self.kept.silences.values().filter(|silence| now < silence.until).cloned().collect()
    }

    /// Alarms that hold.
    pub fn active(&self) -> impl Iterator<Item = &Held> {
        self.kept.alarms.values().filter(|held| held.alarm.resolved_at.is_none())
    }

    /// Alarms that were over lately, the latest first.
    pub fn lately(&self) -> impl Iterator<Item = &Alarm> {
        self.kept.lately.iter()
    }

    /// Jobs that are looked at although another speaks for them: they have alarms that were raised here, or late runs.
    pub fn followed(&self) -> BTreeSet<JobName> {
        self.active().filter_map(|held| held.alarm.job_name.clone()).collect()
    }
}
