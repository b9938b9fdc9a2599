//! Who owns an item, by which rule, who else was a candidate, and when it last moved.

use std::fmt::Write as _;

use crate::id::InstanceId;
use crate::ownership::{Standing, standing};
use crate::strategy::Question;
use crate::verify::given;

use super::rule::rule;
use super::words::{count, past, span};
use super::{Page, Part, Sentence, Stay, Subject};

/// Up to this number of candidates of a kind are named; if there are more, they are counted.
const NAMED: usize = 6;

impl Subject<'_> {
    /// Its owner, by which rule, the other candidates, and since when.
    pub(super) fn place(&self) -> Vec<Sentence> {
        let mut said = vec![self.owner()];
        said.extend(self.rule());
        said.extend(self.candidates());
        said.extend(self.moved());
        said
    }

    /// An item beyond the count of its job.
    pub(super) fn surplus(&self) -> Sentence {
        let (job, item, items) = (&self.job.name, self.item, self.job.rules.items as usize);
        let items = count(items, "item");
        let text = format!(
            "Item {item} of {job} is beyond its {items}: nobody runs it, and its record is kept for when the count is raised."
        );
        Sentence::new(Part::Owner, text).with(job, &Page::Config(job))
    }

    pub(super) fn standing(&self, instance: &InstanceId) -> Standing {
        standing(self.job, instance, &self.candidates)
    }

    /// The owner, if it may run items.
    pub(super) fn live_owner(&self) -> Option<&InstanceId> {
        self.job.sharding.owner(self.item).filter(|owner| self.standing(owner) == Standing::Enabled)
    }

    fn owner(&self) -> Sentence {
        let (job, item) = (&self.job.name, self.item);
        let Some(owner) = self.job.sharding.owner(item) else {
            let text = format!("Nobody owns item {item} of {job}: {}.", self.why_nobody());
            return Sentence::new(Part::Owner, text).with(job, &Page::Job(job));
        };
        let text = match self.standing(owner) {
            Standing::Enabled => match self.job.instances.get(owner).and_then(|seen| seen.node.as_ref()) {
                Some(node) => format!(
                    "{owner} owns item {item} of {job}; its worker is attached to coordinator {}.",
                    node.host
                ),
                None => format!("{owner} owns item {item} of {job}."),
            },
            standing => format!(
                "{owner} owns item {item} of {job}, and {standing}: {}.",
                if standing == Standing::Away {
                    "nobody else is given it before its lease is over".to_owned()
                } else {
                    self.why_nobody()
                }
            ),
        };
        let host = self.job.instances.get(owner).and_then(|seen| Some(seen.node.as_ref()?.host.to_string()));
        let said = Sentence::new(Part::Owner, text);
        let said = said.with(owner, &Page::Instance(owner)).with(job, &Page::Job(job));
        host.into_iter().fold(said, |said, host| said.with(host, &Page::Cluster))
    }

    /// Why no instance that may own the item does.
    fn why_nobody(&self) -> String {
        if self.able().is_empty() {
            return match self.job.instances.is_empty() {
                true => "no worker has registered the job".to_owned(),
                false => "none of its instances may own items".to_owned(),
            };
        }
        match &self.job.leader {
            Some((leader, _)) => format!("the leader, {leader}, is about to reassign the items"),
            None => "the job has no leader at the moment, and one is about to be elected".to_owned(),
        }
    }

    /// Every instance that may own items, in the order in which strategies get them.
    fn able(&self) -> Vec<InstanceId> {
        let known = self.job.instances.keys().chain(&self.candidates.absent);
        let mut able: Vec<InstanceId> =
            known.filter(|instance| self.standing(instance).may_own()).cloned().collect();
        able.sort_by(|a, b| b.cmp(a));
        able.dedup();
        able
    }

    fn rule(&self) -> Option<Sentence> {
        let (job, able) = (&self.job.name, self.able());
        if able.is_empty() {
            return None;
        }
        let current = self.job.sharding.assignment();
        let question = Question { job, instances: &able, items: self.job.rules.items, current: &current };
        let strategy = self.job.rules.strategy;
        let mut text = rule(strategy, &question);
        let planned = strategy.assign(&question);
        let now = self.job.sharding.owner(self.item);
        let then = planned.iter().find(|(_, items)| items.contains(&self.item)).map(|(instance, _)| instance);
        match then {
            Some(then) if now == Some(then) => {
                let at = able.iter().position(|instance| instance == then).unwrap_or_default() + 1;
                let items = given::rows(planned.items(then));
                let _ = write!(text, " {then} is number {at} of them, and gets {items}.");
            }
            Some(then) => {
                let _ = write!(text, " With the next plan {then} gets item {}.", self.item);
            }
            None => {}
        }
        let said = Sentence::new(Part::Rule, text).with(strategy.name(), &Page::Config(job));
        Some(then.into_iter().fold(said, |said, then| said.with(then, &Page::Instance(then))))
    }

    fn candidates(&self) -> Vec<Sentence> {
        let owner = self.job.sharding.owner(self.item);
        let mut said = Vec::new();
        let able = self.able();
        let others: Vec<&InstanceId> = able.iter().filter(|able| Some(*able) != owner).collect();
        for instance in others.iter().take(NAMED) {
            let items = self.job.sharding.items_of(instance);
            let text = match items.is_empty() {
                true => format!("{instance} may own items, too, and has none."),
                false => format!("{instance} may own items, too, and has {}.", given::rows(&items)),
            };
            said.push(Sentence::new(Part::Candidates, text).with(instance, &Page::Instance(instance)));
        }
        said.extend(more(others.len(), "may own items, too"));
        let known = self.job.instances.keys().chain(self.job.sharding.instances());
        let mut rejected: Vec<&InstanceId> = known.filter(|known| !self.standing(known).may_own()).collect();
        rejected.sort();
        rejected.dedup();
        said.extend(rejected.iter().take(NAMED).map(|instance| self.rejected(instance)));
        said.extend(more(rejected.len(), "may own no items"));
        said.extend(self.idle_machines());
        said.extend(self.strangers());
        said
    }

    fn rejected(&self, instance: &InstanceId) -> Sentence {
        let (job, address) = (&self.job.name, instance.address());
        let text = match self.standing(instance) {
            Standing::Leaving => format!("{instance} gets no items: its worker is leaving."),
            Standing::MachineDisabled => {
                format!("{instance} gets no items: machine {address} is disabled for {job}.")
            }
            Standing::Disabled => format!("{instance} gets no items: the instance is disabled for {job}."),
            Standing::Foreign => {
                format!(
                    "{instance} gets no items: it is an instance of Elastic-Job itself, not of a rosterd worker."
                )
            }
            Standing::Gone | Standing::Enabled | Standing::Away => {
                format!("{instance} gets no items: it no longer exists.")
            }
        };
        let said = Sentence::new(Part::Candidates, text).with(instance, &Page::Instance(instance));
        if said.text.contains("machine ") {
            said.with(format!("machine {address}"), &Page::Machine(address))
        } else {
            said
        }
    }

    /// Disabled machines without an instance: they would get nothing.
    fn idle_machines(&self) -> Vec<Sentence> {
        let empty = |address: &str| !self.job.instances.keys().any(|instance| instance.address() == address);
        let servers =
            self.job.servers.iter().filter(|(address, enabled)| !**enabled && empty(address.as_str()));
        let said = servers.take(NAMED).map(|(address, _)| {
            let text = format!(
                "Workers on machine {address} would get no items: it is disabled for {}.",
                self.job.name
            );
            Sentence::new(Part::Candidates, text)
                .with(format!("machine {address}"), &Page::Machine(address.as_str()))
        });
        said.collect()
    }

    /// Attached workers that do not work for this job.
    fn strangers(&self) -> Option<Sentence> {
        let known = |instance: &&InstanceId| {
            !self.job.instances.contains_key(*instance) && !self.job.sharding.instances().contains(instance)
        };
        let strangers: Vec<&InstanceId> = self.facts.attached.keys().filter(known).collect();
        let named: Vec<String> = strangers.iter().take(NAMED).map(ToString::to_string).collect();
        let rest = strangers.len().saturating_sub(NAMED);
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        let text = match strangers.len() {
            0 => return None,
            1 => format!("{} is attached and has not registered {}.", named[0], self.job.name),
            _ => {
                format!("{}{rest} are attached and have not registered {}.", named.join(", "), self.job.name)
            }
        };
        let said = Sentence::new(Part::Candidates, text);
        Some(strangers.iter().take(NAMED).fold(said, |said, one| said.with(one, &Page::Instance(one))))
    }

    /// When and why its owner got it, and who owned it before.
    fn moved(&self) -> Vec<Sentence> {
        let (owner, stays) = (self.job.sharding.owner(self.item), &self.facts.stays);
        let job = &self.job.name;
        let (now, last) = match (owner, stays.first()) {
            (Some(owner), Some(stay)) if stay.to.is_none() && stay.instance == *owner => {
                (Some(stay), stays.get(1))
            }
            (_, first) => (None, first),
        };
        let mut said = Vec::new();
        if let Some(Stay { from, reason, .. }) = now {
            let text = format!("It has had this owner since {}: {reason}.", past(*from, self.facts.now));
            said.push(Sentence::new(Part::Moved, text).with(from, &Page::Ownership(job)));
        } else if owner.is_some() {
            let text = "Since when it has had this owner is not in the history of this coordinator.";
            said.push(Sentence::new(Part::Moved, text).with("the history", &Page::Ownership(job)));
        }
        if let Some(Stay { instance, from, to: Some(to), end_reason, .. }) = last {
            let text =
                format!("Before, {instance} had it for {}, until {to}: {end_reason}.", span(to.since(*from)));
            let said_before = Sentence::new(Part::Moved, text).with(instance, &Page::Instance(instance));
            said.push(said_before.with(to, &Page::Ownership(job)));
        }
        said
    }
}

fn more(all: usize, what: &str) -> Option<Sentence> {
    let rest = all.checked_sub(NAMED).filter(|rest| *rest > 0)?;
    Some(Sentence::new(Part::Candidates, format!("{rest} more {what}.")))
}
