//! What may start is started: failover first where an instance of the job has a free slot, then each owner's
//! own candidates in the order misfire, failover, fire, oldest first, as far as its slots go. Slots belong to
//! the worker: what other jobs' items have waited for longer comes first.

use std::collections::BTreeMap;

use super::{Draft, Entry};
use crate::id::{InstanceId, Item, JobName, Token, TriggerId};
use crate::item::{Event, Running, Source};
use crate::time::Time;
use crate::txn::{Guard, Write};

/// In which order a freed slot is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The misfire that waited.
    Misfire,
    /// A crashed run.
    Failover,
    /// A due time or a trigger.
    Fire,
}

/// An item that waits for a slot of its worker. Ordered: what comes first gets the slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// Its class.
    pub class: Class,
    /// Its due time.
    pub fire: Time,
    /// Its job.
    pub job: JobName,
    /// The item.
    pub item: Item,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Due,
    Misfire,
    Manual(TriggerId),
    Failover,
}

pub(super) fn start(draft: &mut Draft<'_>) {
    offer_crashed(draft);
    let candidates = std::mem::take(&mut draft.candidates);
    for (instance, mut wanted) in candidates {
        wanted.sort_by(|(a, _), (b, _)| a.cmp(b));
        serve(draft, &instance, wanted);
    }
}

/// Hands every crashed run to the instance with the most free slots; what is left waits for any of them.
fn offer_crashed(draft: &mut Draft<'_>) {
    let job = draft.job;
    let mut free: BTreeMap<&InstanceId, u32> = draft
        .facts
        .hosted
        .iter()
        .filter(|(instance, hosted)| hosted.ready && job.is_enabled(instance))
        .map(|(instance, hosted)| (instance, hosted.free))
        .collect();
    let crashed: Vec<(Item, Time)> = draft
        .before
        .keys()
        .filter_map(|item| Some((*item, draft.record(*item)?.crashed()?.fire)))
        .filter(|(item, _)| draft.requeues(*item))
        .collect();
    for (item, fire) in crashed {
        let taker = free.iter().max_by(|(a, n), (b, m)| n.cmp(m).then(b.cmp(a))).map(|(taker, _)| *taker);
        let Some(taker) = taker else { return };
        if let Some(left) = free.get_mut(taker) {
            *left = left.saturating_sub(1);
        }
        let waiting = Waiting { class: Class::Failover, fire, job: job.name.clone(), item };
        draft.candidates.entry(taker.clone()).or_default().push((waiting, Kind::Failover));
    }
}

fn serve(draft: &mut Draft<'_>, instance: &InstanceId, wanted: Vec<(Waiting, Kind)>) {
    let facts = draft.facts;
    let Some(hosted) = facts.hosted.get(instance) else { return };
    let mut left = if hosted.ready && draft.job.is_enabled(instance) { hosted.free } else { 0 };
    let mut others = hosted.others.iter().peekable();
    for (waiting, kind) in wanted {
        while left > 0 && others.next_if(|other| **other < waiting).is_some() {
            left -= 1;
        }
        if left == 0 {
            if hosted.ready {
                draft.plan.waiting.entry(instance.clone()).or_default().push(waiting);
            }
            continue;
        }
        if !draft.changed.contains_key(&waiting.item) && draft.full() {
            return;
        }
        if begin(draft, instance, &waiting, &kind) {
            left -= 1;
        }
    }
}

fn begin(draft: &mut Draft<'_>, instance: &InstanceId, waiting: &Waiting, kind: &Kind) -> bool {
    let (facts, job, item) = (draft.facts, draft.job, waiting.item);
    let Some(hosted) = facts.hosted.get(instance) else { return false };
    let source = match kind {
        Kind::Due => Source::NormalTrigger,
        Kind::Misfire => Source::Misfire,
        Kind::Manual(_) => Source::Manual,
        Kind::Failover => Source::Failover,
    };
    let trigger = match kind {
        Kind::Manual(id) => Some(id.clone()),
        _ => None,
    };
    let held = job.rules.holds_for_started() && source == Source::NormalTrigger;
    let run = Running {
        fire: waiting.fire,
        source,
        instance: instance.clone(),
        worker: hosted.worker.clone(),
        since: facts.now,
        trigger,
        held,
    };
    let event =
        if source == Source::Failover { Event::Claim(run.clone()) } else { Event::Start(run.clone()) };
    if !draft.apply(item, event, || format!("{} starts on {instance}", super::named(source, waiting.fire))) {
        return false;
    }
    draft.guard(Guard::Generation(job.name.clone(), job.generation));
    draft.guard(Guard::Attachment(hosted.worker.clone(), hosted.attachment));
    mirror(draft, item, &run);
    let token = draft.record(item).map_or(Token::default(), |record| record.token);
    draft.plan.entries.push(Entry::Started { item, token, run: run.clone() });
    if !job.rules.monitor {
        forget(draft, item, token, run);
    }
    true
}

fn mirror(draft: &mut Draft<'_>, item: Item, run: &Running) {
    let job = draft.job.name.clone();
    if draft.job.rules.monitor {
        draft.write(Write::Running { job: job.clone(), item, instance: Some(run.instance.clone()) });
    }
    match run.source {
        Source::Failover => {
            draft.write(Write::Failover { job: job.clone(), item, instance: Some(run.instance.clone()) });
            draft.write(Write::FailoverItem { job, item, crashed: None });
        }
        Source::Manual => draft.write(Write::RemoveTrigger(job, item)),
        Source::NormalTrigger | Source::Misfire => {}
    }
}

/// Without monitorExecution the record keeps no run: it is told once, and its end is not waited for.
fn forget(draft: &mut Draft<'_>, item: Item, token: Token, run: Running) {
    if let Some(record) = draft.changed.get_mut(&item) {
        record.state = crate::item::State::Idle;
    }
    draft.plan.unmonitored.push((item, token, run));
}
