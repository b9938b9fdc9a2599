//! Results of fires and runs, for the history, the log and watchers.

use std::sync::Arc;

use rosterd_domain::id::JobName;
use rosterd_domain::item::{Outcome, Running};
use rosterd_domain::ownership::Owned;
use rosterd_domain::plan::{Entry, Plan, Reported};
use rosterd_domain::view::Job;
use rosterd_session::frame::{Completed, RunRef};

use crate::io::cluster_event::{Action, ClusterEvent};
use crate::io::event::Effect;
use crate::job::JobTurn;
use crate::job::state::JobState;

impl JobTurn<'_> {
    pub(crate) fn tell_given_up(&mut self, name: &JobName, job: &JobState, entry: &Entry) {
        let Entry::Ended { item, token, run, outcome: Outcome::Crashed, requeued: false, .. } = entry else {
            return;
        };
        let Some(view) = job.cache.view().filter(|view| view.rules.failover) else { return };
        let most = view.spec.policy().max_failovers;
        if run.deaths < most || run.deaths == 0 || run.cancelled {
            return;
        }
        let (fire, dead) = (run.fire, run.deaths.saturating_add(1));
        let what = format!(
            "item {item}: run {token} of {fire} is given up: {dead} workers died while they ran it (max_failovers: {most})"
        );
        tracing::error!(job = %name, item = item.0, token = token.0, "{what}");
        self.io.out.push(Effect::Publish(ClusterEvent::Job {
            job: name.clone(),
            action: Action::GiveUp,
            what,
            by: None,
        }));
    }

    /// Warns of items here whose last fire lies in the future, and which are silent until then, so that nothing is run
    /// twice. Once per item.
    pub(crate) fn alarm_of_silence(&self, name: &JobName, job: &mut JobState, view: &Job) {
        let (now, settings) = (self.io.now.wall, &self.io.settings);
        // Up to this difference both clocks may be right, with a start that was written ahead of time.
        let apart = 2 * view.spec.max_clock_diff(settings.max_clock_difference) + settings.ahead.1;
        // Last fires further ahead are set back.
        let silent = now.plus(apart)..now.plus(settings.longest_silence);
        for (item, (_, record)) in job.cache.records() {
            let until = record.last_fire;
            let ours = || view.sharding.owner(*item).is_some_and(|owner| job.roster.hosts(owner));
            if !silent.contains(&until) || !ours() || !job.shown.alarms(*item, until) {
                continue;
            }
            tracing::warn!(
                job = %name,
                item = item.0,
                "ALARM: the last fire of an item, {until}, lies in the future: a clock was ahead when it was written. The item \
                 is silent until then, so that nothing is run twice; it can be triggered by hand"
            );
        }
    }
}

impl JobTurn<'_> {
    /// `before`: the job as last known; `None`: it was not known, so the history records the current owners in any
    /// case.
    pub(crate) fn tell_owners(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Job,
        before: Option<&Job>,
    ) {
        if before.is_some_and(|before| before.sharding.assigns_like(&view.sharding)) {
            return;
        }
        let planned = job.duties.take_planned();
        let whys = planned.as_ref().map(|planned| (&planned.why, &planned.causes));
        self.io.out.push(Effect::Owned(Box::new(Owned::of(view, before, whys))));
        if before.is_none() {
            return;
        }
        let owners =
            view.sharding.assignment().iter().map(|(i, items)| (i.clone(), items.to_vec())).collect();
        let why = planned.map(|planned| planned.why);
        let (job, generation) = (name.clone(), view.generation.0);
        self.io.out.push(Effect::Publish(ClusterEvent::Assigned { job, generation, owners, why }));
    }

    /// The job was removed, and its assignment with it.
    pub(crate) fn tell_no_owners(&mut self, gone: &Job) {
        self.io.out.push(Effect::Owned(Box::new(Owned::removed(gone))));
    }

    /// Sends an entry to the history and to the watchers.
    pub(crate) fn tell_entry(&mut self, name: &JobName, job: &JobState, entry: Entry) {
        let detail = match &entry {
            Entry::Ended { item, token, run, .. } => job.reports.detail(*item, *token, &run.worker).cloned(),
            Entry::Started { .. } | Entry::NotRun { .. } => None,
        };
        self.telling.note_run(self.io, name, &entry);
        self.io.out.push(Effect::Record { job: name.clone(), at: self.io.now.wall, entry, detail });
    }

    /// Records the end of a run that no record held. If another host sent it, only its start is known.
    pub(crate) fn record_unmonitored(
        &mut self,
        name: &JobName,
        run: &RunRef,
        told: Option<Running>,
        detail: Option<Arc<Completed>>,
    ) {
        let (item, token) = (run.item, run.token);
        let (Some(run), Some(detail)) = (told, detail) else { return };
        let Reported::Done(outcome) = detail.ended else { return };
        let at = self.io.now.wall;
        let entry = Entry::Ended { item, token, run, outcome, at, requeued: false };
        self.io.out.push(Effect::Record { job: name.clone(), at, entry, detail: Some(detail) });
    }
}

/// Warns of a last fire that is set back: it lies further ahead than any correction of a right clock.
pub(crate) fn alarm_of_set_back(name: &JobName, job: &JobState, plan: &Plan) {
    for (item, (_, after)) in &plan.records {
        let before = job.cache.record(*item).map(|(_, before)| before.last_fire);
        if let Some(before) = before.filter(|before| *before > after.last_fire) {
            tracing::warn!(
                job = %name,
                item = item.0,
                "ALARM: the last fire of an item, {before}, lies far in the future: a clock was wrong when it was written. It is \
                 set back to {}; what was accounted for ahead of its time is not run again, as far as the record tells since when",
                after.last_fire
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::{InstanceId, Item, Token, WorkerId};
    use rosterd_domain::item::{Running, Source};
    use rosterd_domain::time::Time;

    use super::*;
    use crate::io::event::Event;
    use crate::machine::Machine;
    use crate::tests::{at, host};

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
        let (mut machine, name) = (host(), JobName::new("j").unwrap());
        machine.jobs.telling.note_run(&mut machine.io, &name, &ended(1, Outcome::Crashed, true));
        machine.jobs.telling.note_run(&mut machine.io, &name, &ended(1, Outcome::Crashed, false));
        machine.jobs.telling.note_run(&mut machine.io, &name, &ended(1, Outcome::Failed, false));
        for source in [Source::Failover, Source::NormalTrigger] {
            machine.jobs.telling.note_run(
                &mut machine.io,
                &name,
                &Entry::Started { item: Item(3), token: Token(2), run: run(source) },
            );
        }
        let told = notes(std::mem::take(&mut machine.io.out));
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
        let (mut machine, name) = (host(), JobName::new("j").unwrap());
        let crash = |machine: &mut Machine, count: u64| {
            (0..count).for_each(|token| {
                machine.jobs.telling.note_run(&mut machine.io, &name, &ended(token, Outcome::Crashed, true))
            });
            notes(std::mem::take(&mut machine.io.out))
        };
        machine.handle(at(1.0), Event::Tick);
        assert_eq!(crash(&mut machine, 25).len(), 20);
        machine.jobs.telling.note_run(
            &mut machine.io,
            &name,
            &Entry::Started { item: Item(3), token: Token(99), run: run(Source::Failover) },
        );
        assert!(notes(machine.handle(at(1.9), Event::Tick)).is_empty());
        let rest = notes(machine.handle(at(2.0), Event::Tick));
        let what = "5 more runs crashed, and 1 more were run again as failover, within a second";
        assert_eq!(rest, [(None, what.to_owned())]);
        // A second later there is room again, and nothing is left to report.
        assert_eq!(crash(&mut machine, 20).len(), 20);
        assert!(notes(machine.handle(at(3.5), Event::Tick)).is_empty());
        assert_eq!(crash(&mut machine, 1).len(), 1);
    }
}
