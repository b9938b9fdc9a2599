//! Why an item is where it is, and what it waits for: sentences for people, made from a snapshot alone.
//!
//! [`explain`] is a plain function: the command line, REST and gRPC show the same text. Each sentence names its
//! subject, and links its name to the page that shows it. It decides nothing, and its text is not meant to be parsed.

mod place;
mod rule;
#[cfg(test)]
mod tests;
mod wait;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{CoordinatorId, InstanceId, Item, JobName, Token};
use crate::item::{Record, Records};
use crate::plan::Candidates;
use crate::time::Time;
use crate::view::Job;

/// What is known beyond the job's own nodes.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The current time.
    pub now: Time,
    /// Every worker that is attached to a coordinator of the namespace, under the instance id that it has, or would
    /// have.
    pub attached: BTreeMap<InstanceId, Attached>,
    /// Coordinators that fire nothing, each with the reason.
    pub idle: BTreeMap<CoordinatorId, String>,
    /// The owners of the item, the latest first, as far as the history knows; the first two are enough.
    pub stays: Vec<Stay>,
}

/// An attached worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The coordinator that hosts it.
    pub host: CoordinatorId,
    /// It is draining.
    pub leaves: bool,
}

/// The ownership of an item by one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stay {
    /// The owner.
    pub instance: InstanceId,
    /// Since when.
    pub from: Time,
    /// Until when; `None`: it still is the owner.
    pub to: Option<Time>,
    /// Why it got the item.
    pub reason: String,
    /// Why it lost the item.
    pub end_reason: String,
}

/// What a sentence is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The owner of the item.
    Owner,
    /// The rule by which it is assigned.
    Rule,
    /// The other candidates.
    Candidates,
    /// When it last changed owners.
    Moved,
    /// What it does, or waits for.
    Waits,
    /// When it runs next.
    Next,
}

impl Part {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Rule => "rule",
            Self::Candidates => "candidates",
            Self::Moved => "moved",
            Self::Waits => "waits",
            Self::Next => "next",
        }
    }
}

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// What it is about.
    pub part: Part,
    /// The sentence.
    pub text: String,
    /// Parts of the text, each with the page that it refers to.
    pub links: Vec<Link>,
}

/// Words of a sentence that have a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The text, exactly as it is in the sentence.
    pub text: String,
    /// The page, relative to the console's base path.
    pub href: String,
}

/// The target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page<'a> {
    /// A job.
    Job(&'a JobName),
    /// A job's configuration.
    Config(&'a JobName),
    /// Who owned a job's items.
    Ownership(&'a JobName),
    /// A job's scheduled times.
    Fires(&'a JobName),
    /// A job's item.
    Item(&'a JobName, Item),
    /// A run.
    Run(&'a JobName, Item, Token),
    /// An instance, among the workers.
    Instance(&'a InstanceId),
    /// A machine.
    Machine(&'a str),
    /// The coordinators.
    Cluster,
}

impl Page<'_> {
    /// Its path, relative to the console's base path.
    pub fn href(&self) -> String {
        use words::segment as part;
        match self {
            Self::Job(job) => format!("jobs/{}", part(job.as_str())),
            Self::Config(job) => format!("jobs/{}?tab=config", part(job.as_str())),
            Self::Ownership(job) => format!("jobs/{}?tab=ownership", part(job.as_str())),
            Self::Fires(job) => format!("jobs/{}?tab=fires", part(job.as_str())),
            Self::Item(job, item) => format!("jobs/{}/items/{item}", part(job.as_str())),
            Self::Run(job, item, token) => format!("jobs/{}/runs/{item}/{}", part(job.as_str()), token.0),
            Self::Instance(instance) => format!("workers?q={}", part(instance.as_str())),
            Self::Machine(address) => format!("machines/{}", part(address)),
            Self::Cluster => "cluster".to_owned(),
        }
    }
}

impl Sentence {
    fn new(part: Part, text: impl Into<String>) -> Self {
        Self { part, text: text.into(), links: Vec::new() }
    }

    /// Adds a link; ignored if the text is not a part of the sentence, so that a sentence can have several wordings.
    fn with(mut self, text: impl ToString, page: &Page<'_>) -> Self {
        let text = text.to_string();
        if self.text.contains(&text) && !self.links.iter().any(|link| link.text == text) {
            self.links.push(Link { text, href: page.href() });
        }
        self
    }
}

/// The item to explain.
struct Subject<'a> {
    job: &'a Job,
    item: Item,
    record: Option<&'a Record>,
    facts: &'a Facts,
    candidates: Candidates,
}

/// Explains an item; `None`: the job has no such item, and never had.
pub fn explain(job: &Job, records: &Records, item: Item, facts: &Facts) -> Option<Vec<Sentence>> {
    let record = records.get(&item).map(|(_, record)| &**record);
    if item.0 >= job.rules.items && record.is_none() {
        return None;
    }
    let subject = Subject { job, item, record, facts, candidates: candidates(job, facts) };
    if item.0 >= job.rules.items {
        return Some(vec![subject.surplus()]);
    }
    let mut sentences = subject.place();
    sentences.extend(subject.waits(records));
    sentences.push(subject.next());
    Some(sentences)
}

/// What the leader knows of the instances beyond the job's nodes, as far as attachments show it.
fn candidates(job: &Job, facts: &Facts) -> Candidates {
    let leaves = |instance: &&InstanceId| facts.attached.get(*instance).is_some_and(|worker| worker.leaves);
    let known: BTreeSet<&InstanceId> = job.instances.keys().chain(job.sharding.instances()).collect();
    let leaving: BTreeSet<InstanceId> = known.iter().copied().filter(leaves).cloned().collect();
    let away = |instance: &&InstanceId| {
        facts.attached.contains_key(*instance)
            && !job.instances.contains_key(*instance)
            && !leaving.contains(*instance)
    };
    let absent = job.sharding.instances().iter().filter(away).cloned().collect();
    Candidates { absent, leaving, now: facts.now }
}
