//! Data for monitoring of jobs.

use std::time::Duration;

use rosterd_domain::id::{InstanceId, JobName};
use rosterd_domain::item::Outcome;
use rosterd_domain::unattended::{Unattended, unattended};
use rosterd_domain::view::Job;

use crate::io::operation::status;
use crate::io::standing::Standing;
use crate::job::AllJobs;
use crate::job::parts::cache::KnownJob;
use crate::job::state::JobState;

impl AllJobs<'_> {
    /// Reports the jobs whose standing has changed since the last report, and `None` for those that were removed.
    pub(crate) fn standings(&mut self, mut tell: impl FnMut(&JobName, Option<Standing>)) {
        for name in self.jobs.telling.take_gone() {
            tell(&name, None);
        }
        for (name, job) in self.jobs.all.iter_mut() {
            if !job.shown.take_turned() || !job.cache.existed() {
                continue;
            }
            let standing = standing_of(job);
            if job.shown.tells(standing) {
                tell(name, standing);
            }
        }
    }

    /// Nothing is left of a job here: monitoring is told.
    pub(crate) fn shown_no_more(&mut self, name: &JobName, job: &JobState) {
        if job.cache.existed() && job.shown.may_be_known() {
            self.jobs.telling.has_gone(name);
        }
    }

    /// How many of the jobs led here have no worker, how many of their items no owner, and how long the oldest
    /// scheduled time waits that this coordinator is responsible for. Only jobs that had a turn since are examined
    /// again.
    pub(crate) fn unattended(&mut self) -> (usize, usize, Duration) {
        let (mut jobs, mut items, mut oldest) = (0, 0, self.io.now.wall);
        for job in self.jobs.all.unordered_values_mut() {
            let found = job.shown.unattended().unwrap_or_else(|| unattended_of(job));
            job.shown.found_unattended(found);
            jobs += usize::from(found.without_workers);
            items += found.items as usize;
            oldest = oldest.min(found.waits_since.unwrap_or(oldest));
        }
        (jobs, items, self.io.now.wall.since(oldest))
    }
}

/// Whether a leader has become responsible for items whose records another host wrote so far: their owner is gone.
pub(crate) fn has_orphans(view: &Job, before: &Job) -> bool {
    let leads = |view: &Job| matches!(view.leader, Some((_, true)));
    let theirs = |gone: &InstanceId| before.instances.get(gone).is_some_and(|seen| !seen.mine);
    let mut gone = view.sharding.instances().iter().filter(|owner| !view.instances.contains_key(*owner));
    leads(view) && gone.any(|gone| theirs(gone) || !leads(before))
}

fn standing_of(job: &JobState) -> Option<Standing> {
    let status = match job.cache.known() {
        KnownJob::Present(view) => status(Ok(Some(view))),
        KnownJob::Damaged(damaged) => status(Err(&damaged.why)),
        KnownJob::Ending => status(Ok(None)),
        KnownJob::Unread | KnownJob::Absent => return None,
    };
    let ends = job.cache.records().values().filter_map(|(_, record)| record.last.as_ref());
    let last_success = ends.filter(|last| last.outcome == Outcome::Succeeded).map(|last| last.at).max();
    Some(Standing { status, last_success })
}

fn unattended_of(job: &JobState) -> Unattended {
    let Some(view) = job.cache.view() else { return Unattended::default() };
    unattended(view, job.cache.records(), job.leads(), &|instance| job.roster.hosts(instance))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rosterd_domain::id::{InstanceId, Item, ServerAddress, Token, Version, WorkerId};
    use rosterd_domain::item::{Ended, Record, Source};

    use rosterd_domain::time::Time;

    use super::*;
    use crate::io::event::{Answer, Event};
    use crate::io::operation::JobStatus;
    use crate::job::parts::cache::Cache;
    use crate::machine::Machine;
    use crate::tests::{at, host, job_with};

    fn told(machine: &mut Machine) -> Vec<(String, Option<Standing>)> {
        let mut told = Vec::new();
        machine.standings(|name, standing| told.push((name.to_string(), standing)));
        told
    }

    fn ended(at: Time, outcome: Outcome, instance: &InstanceId) -> Record {
        let last = Ended {
            token: Token(1),
            fire: at,
            source: Source::NormalTrigger,
            instance: instance.clone(),
            outcome,
            at,
            reported: true,
        };
        Record { last: Some(last), ..Record::new(Token(1), at) }
    }

    #[test]
    fn a_job_is_told_of_once_for_each_change_and_when_it_has_gone() {
        let mut machine = host();
        let worker = WorkerId::new("elsewhere").unwrap();
        let instance = InstanceId::from_parts(&ServerAddress::new("10.0.0.1").unwrap(), &worker).unwrap();
        let (name, view) = job_with(&instance);
        let mut job = JobState { cache: Cache::of(view.clone()), ..JobState::default() };
        for (item, second, outcome) in [(0, 10, Outcome::Succeeded), (1, 20, Outcome::Failed)] {
            let record = ended(Time::from_seconds(second), outcome, &instance);
            job.cache.put_record(Item(item), Version(0), record.into());
        }
        job.shown.had_turn();
        machine.jobs.put(name.clone(), job);
        let standing = |status, second| {
            let last_success = Some(Time::from_seconds(second));
            vec![("j".to_owned(), Some(Standing { status, last_success }))]
        };
        assert_eq!(told(&mut machine), standing(JobStatus::Enabled, 10));
        assert!(machine.has_job(&name));
        assert_eq!(told(&mut machine), []);

        let job = machine.jobs.all.get_mut(&name).unwrap();
        let mut paused = (*view).clone();
        paused.paused = true;
        job.cache.found(KnownJob::Present(Arc::new(paused)));
        job.shown.had_turn();
        assert_eq!(told(&mut machine), standing(JobStatus::Paused, 10));

        // At its turn it finds that the store no longer has it.
        machine.schedule.run_queue.insert(name.clone());
        machine.jobs.all.get_mut(&name).unwrap().cache.records_went_stale();
        let effects = machine.handle(at(1.0), Event::Tick);
        let read = effects.iter().find_map(|effect| match effect {
            crate::io::event::Effect::Read(id, crate::io::event::Query::Job(_)) => Some(*id),
            _ => None,
        });
        machine.handle(at(1.1), Event::Read(read.unwrap(), Answer::Job(Box::new(Ok(None)))));
        assert!(!machine.has_job(&name));
        assert_eq!(told(&mut machine), [("j".to_owned(), None)]);
        assert_eq!(told(&mut machine), []);
    }
}
