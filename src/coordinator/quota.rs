//! What a credential's workers may bring. Counted are the jobs that exist under the credential's names, whoever made them:
//! so nobody has more by registering, leaving and registering another name. Each coordinator counts what it knows, so
//! several that make jobs at the same moment may pass a limit by these.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::job::JobSpec;
use rosterd_domain::time::Mono;
use rosterd_domain::view::{self, Job};
use rosterd_session::code::{Code, Refusal};
use rosterd_session::jobs::Jobs;
use rosterd_session::limits::Load;

use super::job::{Intent, JobState, Registering};
use super::node::Node;

/// For so long what was counted holds: who is refused as fast as it asks does not make the coordinator count each time.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// What the jobs of each credential came to, and when that was counted.
pub(super) type Counted = BTreeMap<Arc<str>, (Mono, Load)>;

impl Node {
    /// Whether a registration may make a job of this configuration, or put it in the place of the one `before`.
    pub(super) fn check_limits(
        &mut self,
        name: &JobName,
        registering: &Registering,
        spec: &JobSpec,
        before: Option<&Job>,
    ) -> Result<(), Refusal> {
        let Some(peer) = self.streams.get(&registering.stream).map(|stream| stream.peer.clone()) else {
            return Ok(());
        };
        let (Some(principal), Some(limits)) = (peer.principal, peer.limits) else { return Ok(()) };
        let (wanted, now) = (load_of(spec), before.map(load_of_view).unwrap_or_default());
        if !wanted.exceeds(now) {
            return Ok(());
        }
        let principal: Arc<str> = principal.into();
        let known = self.counted.get(&principal).filter(|(at, _)| self.now.mono.since(*at) < COUNT_EVERY);
        let all = known.map(|(_, all)| *all);
        let all = all.unwrap_or_else(|| self.count(&peer.jobs, name).and(now));
        let would = all.without(now).and(wanted);
        let Some(broken) = limits.broken_by(would) else {
            // The next one finds this job among the others.
            self.counted.remove(&principal);
            return Ok(());
        };
        if known.is_none() {
            self.counted.insert(principal.clone(), (self.now.mono, all));
        }
        let message =
            format!("job {name} is refused to the workers of {principal} ({}): {broken}", peer.jobs);
        Err(Refusal::new(Code::QuotaExceeded, message))
    }

    /// The jobs of these names but `name`, which has its turn.
    fn count(&self, names: &Jobs, name: &JobName) -> Load {
        let theirs = self.jobs.iter().filter(|(other, _)| *other != name && names.have(other));
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

/// Of a job that is there, or is being made.
fn load_of_state(job: &JobState) -> Load {
    let made = || {
        let offer = job.registering.front().and_then(|registering| registering.config.as_ref());
        offer.and_then(|offer| offer.as_deref().ok()).map(load_of)
    };
    match (&job.view, &job.writing) {
        (Some(view), _) => load_of_view(view),
        (None, Some(Intent::Create { .. })) => made().unwrap_or_default(),
        // It cannot be understood, and is there all the same.
        (None, _) if job.damaged.is_some() => Load::of_job(0, 0),
        (None, _) => Load::default(),
    }
}
