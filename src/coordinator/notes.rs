//! Runs that crashed, and those that take their place as failover: a line of the log and of the history for each, told once its
//! transaction is committed. Thousands may crash together, with their worker or their host: beyond so many a second the
//! others are counted, and told of in one line.

use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::item::{Outcome, Source};
use rosterd_domain::plan::Entry;
use rosterd_domain::time::Mono;

use super::event::Effect;
use super::node::Node;
use super::timers::Timer;

/// Runs that are told of one by one in a span.
const MOST: u32 = 20;
/// How long a span is.
const SPAN: Duration = Duration::from_secs(1);

/// How much was told of in the span under way.
#[derive(Debug, Default)]
pub(super) struct Notes {
    since: Option<Mono>,
    told: u32,
    /// Only counted.
    crashed: u64,
    failed_over: u64,
}

impl Node {
    pub(super) fn note_run(&mut self, name: &JobName, entry: &Entry) {
        match entry {
            Entry::Ended { item, token, run, outcome: Outcome::Crashed, requeued, .. } => {
                if !self.may_note() {
                    self.telling.notes.crashed += 1;
                    return;
                }
                let next = if *requeued { ": it is to run again" } else { "" };
                let what =
                    format!("item {item}: run {token} of {} crashed on {}{next}", run.fire, run.instance);
                let (item, token, instance) = (item.0, token.0, &run.instance);
                tracing::warn!(job = %name, item, token, %instance, requeued, "a run crashed");
                self.out.push(Effect::Note { job: Some(name.clone()), what });
            }
            Entry::Started { item, token, run } if run.source == Source::Failover => {
                if !self.may_note() {
                    self.telling.notes.failed_over += 1;
                    return;
                }
                let what =
                    format!("item {item}: run {token} of {} is a failover, on {}", run.fire, run.instance);
                let (item, token, instance) = (item.0, token.0, &run.instance);
                tracing::info!(job = %name, item, token, %instance, "a crashed run is run again: failover");
                self.out.push(Effect::Note { job: Some(name.clone()), what });
            }
            _ => {}
        }
    }

    /// Whether there is room for one more in this span; the end of one that is full is waited for.
    fn may_note(&mut self) -> bool {
        let (now, notes) = (self.now.mono, &mut self.telling.notes);
        let over = notes.since.is_none_or(|since| since.plus(SPAN) <= now);
        if over && notes.crashed + notes.failed_over == 0 {
            (notes.since, notes.told) = (Some(now), 0);
        }
        if notes.told < MOST {
            notes.told += 1;
            return true;
        }
        if notes.crashed + notes.failed_over == 0 {
            let end = notes.since.unwrap_or(now).plus(SPAN);
            self.timers.insert((end, Timer::Notes));
        }
        false
    }

    /// Those that were only counted, in one line.
    pub(super) fn tell_counted(&mut self) {
        let Notes { crashed, failed_over, .. } = std::mem::take(&mut self.telling.notes);
        if crashed + failed_over > 0 {
            let what = format!(
                "{crashed} more runs crashed, and {failed_over} more were run again as failover, within a second"
            );
            tracing::warn!(
                crashed,
                failed_over,
                "more runs crashed or were run again than are told of one by one"
            );
            self.out.push(Effect::Note { job: None, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::{InstanceId, Item, Token, WorkerId};
    use rosterd_domain::item::Running;
    use rosterd_domain::time::Time;

    use super::*;
    use crate::event::Event;
    use crate::failure_detector::tests::{at, host};

    fn run(source: Source) -> Running {
        Running {
            fire: Time::from_seconds(1000),
            source,
            instance: InstanceId::new("10.0.0.1@-@w").unwrap(),
            worker: WorkerId::new("w").unwrap(),
            since: Time::from_seconds(1000),
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        }
    }

    fn ended(token: u64, outcome: Outcome, requeued: bool) -> Entry {
        let (item, run, at) = (Item(3), run(Source::NormalTrigger), Time::from_seconds(1001));
        Entry::Ended { item, token: Token(token), run, outcome, at, requeued }
    }

    fn notes(effects: Vec<Effect>) -> Vec<(Option<String>, String)> {
        let note = |effect| match effect {
            Effect::Note { job, what } => Some((job.map(|job| job.to_string()), what)),
            _ => None,
        };
        effects.into_iter().filter_map(note).collect()
    }

    #[test]
    fn a_crash_and_the_run_that_takes_its_place_are_told() {
        let (mut node, name) = (host(), JobName::new("j").unwrap());
        node.note_run(&name, &ended(1, Outcome::Crashed, true));
        node.note_run(&name, &ended(1, Outcome::Crashed, false));
        node.note_run(&name, &ended(1, Outcome::Failed, false));
        for source in [Source::Failover, Source::NormalTrigger] {
            node.note_run(&name, &Entry::Started { item: Item(3), token: Token(2), run: run(source) });
        }
        let told = notes(std::mem::take(&mut node.out));
        let of = |what: &str| (Some("j".to_owned()), what.to_owned());
        assert_eq!(
            told,
            [
                of("item 3: run 1 of 1970-01-01T00:16:40Z crashed on 10.0.0.1@-@w: it is to run again"),
                of("item 3: run 1 of 1970-01-01T00:16:40Z crashed on 10.0.0.1@-@w"),
                of("item 3: run 2 of 1970-01-01T00:16:40Z is a failover, on 10.0.0.1@-@w"),
            ]
        );
    }

    #[test]
    fn so_many_a_second_are_told_and_the_rest_is_counted() {
        let (mut node, name) = (host(), JobName::new("j").unwrap());
        let crash = |node: &mut Node, count: u64| {
            (0..count).for_each(|token| node.note_run(&name, &ended(token, Outcome::Crashed, true)));
            notes(std::mem::take(&mut node.out))
        };
        node.handle(at(1.0), Event::Tick);
        assert_eq!(crash(&mut node, 25).len(), 20);
        node.note_run(&name, &Entry::Started { item: Item(3), token: Token(99), run: run(Source::Failover) });
        assert!(notes(node.handle(at(1.9), Event::Tick)).is_empty());
        let rest = notes(node.handle(at(2.0), Event::Tick));
        let what = "5 more runs crashed, and 1 more were run again as failover, within a second";
        assert_eq!(rest, [(None, what.to_owned())]);
        // A second later there is room again, and nothing is left to be told.
        assert_eq!(crash(&mut node, 20).len(), 20);
        assert!(notes(node.handle(at(3.5), Event::Tick)).is_empty());
        assert_eq!(crash(&mut node, 1).len(), 1);
    }
}
