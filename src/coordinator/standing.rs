//! What monitoring is told of each job: its status, and when a run of it last succeeded as far as its records say. Called
//! by the driver a few times a second; only jobs that had a turn since are looked at.

use rosterd_domain::id::JobName;
use rosterd_domain::item::Outcome;
use rosterd_domain::time::Time;

use super::handle::JobStatus;
use super::job::JobState;
use super::node::Node;
use super::views::status;

/// A job, to monitoring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// What it is up to.
    pub status: JobStatus,
    /// When a run of it last succeeded, whichever item's; none: no record says so any more.
    pub last_success: Option<Time>,
}

impl Node {
    /// Tells of the jobs whose standing is another than was told last, and with none of those that have gone.
    pub fn standings(&mut self, mut tell: impl FnMut(&JobName, Option<Standing>)) {
        for name in std::mem::take(&mut self.telling.gone) {
            tell(&name, None);
        }
        for (name, job) in &mut self.jobs {
            if !std::mem::take(&mut job.turned) || !job.existed {
                continue;
            }
            let standing = of(job);
            if job.shown != Some(standing) {
                job.shown = Some(standing);
                tell(name, standing);
            }
        }
    }

    /// Whether a job is there, as far as is known here.
    pub fn has_job(&self, name: &JobName) -> bool {
        self.jobs.get(name).is_some_and(|job| job.view.is_some() || job.damaged.is_some() || job.ending)
    }

    /// Nothing is left of a job here.
    pub(super) fn shown_no_more(&mut self, name: &JobName, job: &JobState) {
        if job.existed && job.shown != Some(None) {
            self.telling.gone.push(name.clone());
        }
    }
}

fn of(job: &JobState) -> Option<Standing> {
    let status = match (&job.view, &job.damaged) {
        (Some(view), _) => status(Ok(Some(view))),
        (None, Some(damaged)) => status(Err(&damaged.why)),
        (None, None) if job.ending => status(Ok(None)),
        (None, None) => return None,
    };
    let ends = job.records.values().filter_map(|(_, record)| record.last.as_ref());
    let last_success = ends.filter(|last| last.outcome == Outcome::Succeeded).map(|last| last.at).max();
    Some(Standing { status, last_success })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rosterd_domain::id::{InstanceId, Item, ServerAddress, Token, Version, WorkerId};
    use rosterd_domain::item::{Ended, Record, Source};

    use super::*;
    use crate::event::{Answer, Event};
    use crate::failure_detector::tests::{at, host, job_with};

    fn told(node: &mut Node) -> Vec<(String, Option<Standing>)> {
        let mut told = Vec::new();
        node.standings(|name, standing| told.push((name.to_string(), standing)));
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
        let mut node = host();
        let worker = WorkerId::new("elsewhere").unwrap();
        let instance = InstanceId::from_parts(&ServerAddress::new("10.0.0.1").unwrap(), &worker).unwrap();
        let (name, view) = job_with(&instance);
        let mut job =
            JobState { view: Some(view.clone()), loaded: true, existed: true, ..JobState::default() };
        for (item, second, outcome) in [(0, 10, Outcome::Succeeded), (1, 20, Outcome::Failed)] {
            job.records
                .insert(Item(item), (Version(0), ended(Time::from_seconds(second), outcome, &instance)));
        }
        job.turned = true;
        node.jobs.insert(name.clone(), Box::new(job));
        let standing = |status, second| {
            let last_success = Some(Time::from_seconds(second));
            vec![("j".to_owned(), Some(Standing { status, last_success }))]
        };
        assert_eq!(told(&mut node), standing(JobStatus::Enabled, 10));
        assert!(node.has_job(&name));
        assert_eq!(told(&mut node), []);

        let job = node.jobs.get_mut(&name).unwrap();
        let mut paused = (*view).clone();
        paused.paused = true;
        job.view = Some(Arc::new(paused));
        job.turned = true;
        assert_eq!(told(&mut node), standing(JobStatus::Paused, 10));

        // Its turn finds that the store has it no more.
        node.run_queue.insert(name.clone());
        node.jobs.get_mut(&name).unwrap().stale_records = true;
        let effects = node.handle(at(1.0), Event::Tick);
        let read = effects.iter().find_map(|effect| match effect {
            crate::event::Effect::Read(id, crate::event::Query::Job(_)) => Some(*id),
            _ => None,
        });
        node.handle(at(1.1), Event::Read(read.unwrap(), Answer::Job(Box::new(Ok(None)))));
        assert!(!node.has_job(&name));
        assert_eq!(told(&mut node), [("j".to_owned(), None)]);
        assert_eq!(told(&mut node), []);
    }
}
