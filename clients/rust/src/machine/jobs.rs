//! The jobs of this worker, and which of them the coordinator has registered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::types::{JobSpec, Props};
use crate::proto::{Assignment, ConfigDifference, Refused, Register, Registered};

/// A refused job is offered again after this, in case an operator has fixed it.
pub(super) const OFFER_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) enum RegistrationState {
    Offered,
    Registered,
    Refused {
        code: String,
        message: String,
        again_at: Duration,
    },
    /// An operator shut it down here.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct RegisteredJobs {
    pub(super) all: BTreeMap<String, (JobSpec, RegistrationState)>,
    /// Those that a coordinator has registered, on this stream or an earlier one.
    pub(super) agreed: BTreeSet<String>,
    /// As last received; they outlive the stream.
    props: BTreeMap<String, Arc<Props>>,
    /// Code and message of the refusals that were logged, until the job is registered.
    pub(super) refusals: BTreeMap<String, (String, String)>,
    /// The differences between their configs and the store, as last logged.
    differences: BTreeMap<String, Vec<ConfigDifference>>,
    /// When the first refused job is offered again: cached, since every event reads it.
    again: Option<Duration>,
}

impl RegisteredJobs {
    pub(crate) fn new(specs: &[JobSpec]) -> Self {
        let all = specs
            .iter()
            .map(|spec| (spec.name.clone(), (spec.clone(), RegistrationState::Offered)))
            .collect();
        Self {
            all,
            agreed: BTreeSet::new(),
            props: BTreeMap::new(),
            refusals: BTreeMap::new(),
            differences: BTreeMap::new(),
            again: None,
        }
    }

    /// Whether runs of the job may start here.
    pub(crate) fn serves(&self, job: &str) -> bool {
        let state = self.all.get(job).map(|(_, state)| state);
        matches!(state, Some(RegistrationState::Offered | RegistrationState::Registered))
    }

    /// Whether the job was not shut down here.
    pub(crate) fn works_for(&self, job: &str) -> bool {
        self.all.get(job).is_some_and(|(_, state)| !matches!(state, RegistrationState::Stopped))
    }

    /// The jobs that a coordinator has registered. One that is offered again after a reconnect still counts: it may
    /// have runs in flight here, and the next coordinator must read their records before Welcome.
    pub(crate) fn registered(&self) -> Vec<String> {
        self.agreed.iter().filter(|job| self.works_for(job)).cloned().collect()
    }

    /// The others. It is not known whether their coordinator received them, and runs that it assigned take slots here.
    pub(crate) fn asked(&self) -> Vec<String> {
        let agreed = |job: &String| self.agreed.contains(job) && self.works_for(job);
        self.all.keys().filter(|job| !agreed(job)).cloned().collect()
    }

    /// Those that are shut down here.
    pub(super) fn stopped(&self) -> Vec<String> {
        let stopped = self.all.iter().filter(|(_, (_, state))| matches!(state, RegistrationState::Stopped));
        stopped.map(|(job, _)| job.clone()).collect()
    }

    /// The properties of all runs of a job, from now on.
    pub(crate) fn on_assignment(&mut self, assignment: Assignment) {
        let Assignment { job, items, generation, props, .. } = assignment;
        tracing::debug!(job, ?items, generation, "assignment");
        if self.all.contains_key(&job) {
            self.props.insert(job, Arc::new(props));
        }
    }

    pub(crate) fn props(&self, job: &str) -> Arc<Props> {
        self.props.get(job).cloned().unwrap_or_default()
    }

    /// Whether a refusal has not been logged yet.
    pub(super) fn is_news(&mut self, refused: &Refused) -> bool {
        let said = (refused.code.clone(), refused.message.clone());
        self.refusals.insert(refused.job.clone(), said.clone()).is_none_or(|before| before != said)
    }

    /// The warning about a config that has no effect, once for each set of differences.
    pub(super) fn ignored(&mut self, registered: &Registered) -> Option<String> {
        let Registered { job, config_differences: differences, .. } = registered;
        let known = self.differences.insert(job.clone(), differences.clone()).unwrap_or_default();
        if differences.is_empty() || known == *differences {
            return None;
        }
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".into());
        let fields = differences.iter().map(|ConfigDifference { field, stored, offered }| {
            format!("{field} is {} in the store and {} here", shown(stored), shown(offered))
        });
        let fields: Vec<String> = fields.collect();
        Some(format!(
            "the config of job {job} is ignored, since the job exists: {}; register it with overwrite, or change the \
             job by `rosterd jobs apply`",
            fields.join(", ")
        ))
    }

    pub(crate) fn retry_at(&self) -> Option<Duration> {
        self.again
    }

    pub(super) fn look_when_again(&mut self) {
        let again = self.all.values().map(|(_, state)| match state {
            RegistrationState::Refused { again_at, .. } => Some(*again_at),
            _ => None,
        });
        self.again = again.flatten().min();
    }

    pub(super) fn set(&mut self, job: &str, state: RegistrationState) {
        let Some((_, old)) = self.all.get_mut(job) else { return };
        if matches!(old, RegistrationState::Stopped) {
            return;
        }
        let refused = |state: &RegistrationState| matches!(state, RegistrationState::Refused { .. });
        let matters = refused(old) || refused(&state);
        *old = state;
        if matters {
            self.look_when_again();
        }
    }

    /// Offers every job for which `which` holds.
    pub(super) fn offer(&mut self, which: impl Fn(&RegistrationState) -> bool) -> Vec<Register> {
        let mut offers = Vec::new();
        for (spec, state) in self.all.values_mut().filter(|(_, state)| which(state)) {
            *state = RegistrationState::Offered;
            offers.push(Register {
                job: spec.name.clone(),
                handler_type: spec.handler_type.clone(),
                config: spec.config.clone(),
                overwrite: spec.overwrite,
            });
        }
        self.look_when_again();
        offers
    }
}
