//! The limits of a credential's workers. Jobs count that exist under the credential's names, whoever created them, so
//! that a worker cannot exceed the limits by registering, leaving and registering another name. Each coordinator counts
//! the jobs that it knows, so if several create jobs at the same moment they may exceed a limit by that many.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::job::JobSpec;
use rosterd_domain::view;
use rosterd_domain::view::Job;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::jobs::JobScope;
use rosterd_session::limits::Load;

use crate::job::AllJobs;
use crate::job::parts::roster::Registering;
use crate::job::parts::writer::Intent;
use crate::job::registration::overwriting;
use crate::job::state::JobState;

/// How long a count is valid: a worker that is refused as fast as it asks does not cause a count each time.
const COUNT_EVERY: Duration = Duration::from_secs(1);

impl AllJobs<'_> {
    /// Checks registrations that would create or change a job against the limits of their credentials. Counting needs
    /// other jobs, so it comes before the job's own turn, which finds the result here.
    pub(crate) fn weigh_registrations(&mut self, name: &JobName) {
        let Some(job) = self.jobs.all.get_mut(name).filter(|job| job.is_known()) else { return };
        if job.roster.registering().is_empty() {
            return;
        }
        let (view, mut registering) = (job.cache.view().cloned(), job.roster.take_registrations());
        for registering in &mut registering {
            let over_limit = match (&view, overwriting(registering), &registering.config) {
                (Some(view), Some(Ok(spec)), _) => self.over_limit(name, registering, &spec, Some(view)),
                (None, _, Some(Ok(spec))) => self.over_limit(name, registering, spec, None),
                _ => None,
            };
            registering.over_limit = over_limit;
        }
        if let Some(job) = self.jobs.all.get_mut(name) {
            job.roster.put_back_registrations(registering);
        }
    }

    /// Why a registration may not create a job with this configuration, or replace the one `before`.
    fn over_limit(
        &mut self,
        name: &JobName,
        registering: &Registering,
        spec: &JobSpec,
        before: Option<&Job>,
    ) -> Option<Refusal> {
        let peer = self.workers.stream(registering.stream)?.peer();
        let (principal, limits) = (peer.principal.as_deref()?, peer.limits?);
        let (wanted, now) = (load_of(spec), before.map(load_of_view).unwrap_or_default());
        if !wanted.exceeds(now) {
            return None;
        }
        let principal: Arc<str> = principal.into();
        let counted = self.jobs.counted.get(&principal);
        let known = counted.filter(|(at, _)| self.io.now.mono.since(*at) < COUNT_EVERY).map(|(_, all)| *all);
        let all = known.unwrap_or_else(|| self.count(&peer.jobs, name).and(now));
        let Some(broken) = limits.broken_by(all.without(now).and(wanted)) else {
            // The next registration counts this job among the others.
            self.jobs.counted.remove(&principal);
            return None;
        };
        let message =
            format!("job {name} is refused to the workers of {principal} ({}): {broken}", peer.jobs);
        if known.is_none() {
            self.jobs.counted.insert(principal, (self.io.now.mono, all));
        }
        Some(Refusal::new(Code::QuotaExceeded, message))
    }

    /// The jobs with these names except `name`, which has its turn.
    fn count(&self, names: &JobScope, name: &JobName) -> Load {
        let theirs = self.jobs.all.iter().filter(|(other, _)| *other != name && names.have(other));
        theirs.map(|(_, job)| load_of_state(job)).fold(Load::default(), Load::and)
    }
}

fn load_of(spec: &JobSpec) -> Load {
    let (config, gap) = (spec.config(), spec.policy().gap);
    let schedule = config.cron.as_deref().and_then(|cron| view::schedule(cron, config.zone(), gap).ok());
    let fires = schedule.map_or(0, |schedule| schedule.fires_per_minute());
    Load::of_job(config.sharding_total_count, fires)
}

fn load_of_view(job: &Job) -> Load {
    let fires = job.rules.schedule.as_ref().map_or(0, |schedule| schedule.fires_per_minute());
    Load::of_job(job.rules.items, fires)
}

/// For a job that exists, or is being created.
fn load_of_state(job: &JobState) -> Load {
    let made = || {
        let offer = job.roster.registering().front().and_then(|registering| registering.config.as_ref());
        offer.and_then(|offer| offer.as_deref().ok()).map(load_of)
    };
    match (job.cache.view(), job.writer.intent()) {
        (Some(view), _) => load_of_view(view),
        (None, Some(Intent::Create { .. })) => made().unwrap_or_default(),
        // It cannot be decoded, but exists nevertheless.
        (None, _) if job.cache.damaged().is_some() => Load::of_job(0, 0),
        (None, _) => Load::default(),
    }
}
