//! Moving jobs: out of a store into a file, and from a file, or from Elastic-Job's own trees, into a store.
//!
//! It works through the registry's port alone and knows of no particular store. It never changes what it reads from,
//! never makes a job visible before all of it is there, and never lets a token fall: what a file says of tokens
//! raises the numbering of the store that it is read into. Called by `app::transfer` for the command line.

pub mod backup;
pub mod elastic_job;
mod file;
mod form;
mod put;
mod read;
pub mod restore;
#[cfg(test)]
mod restore_tests;
mod take;

use std::collections::BTreeMap;

use rosterd_domain::id::{Item, JobName, Namespace, ServerAddress, Token};
use rosterd_domain::item::Record;
use rosterd_domain::job::{self, JobConfig, JobSpec, Policy};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::snapshot::{Announced, Stage, TriggerNode};
use rosterd_domain::time::Time;
use rosterd_domain::view;

pub use put::{Existing, ImportReport, Options, PutError, put};
pub use take::{TakeError, Taken, take};

/// What a file holds: the jobs of one namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Export {
    /// Whose they are.
    pub namespace: Namespace,
    /// When they were read.
    pub exported_at: Time,
    /// No token that was given in the namespace until then is above it.
    pub tokens: Token,
    /// The jobs, by name.
    pub jobs: Vec<Job>,
}

/// All of a job that does not go with its processes.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: JobName,
    /// What runs it.
    pub handler: String,
    /// The data of `config`, to the letter.
    pub config: String,
    /// The data of `rosterd/policy`, to the letter.
    pub policy: Option<String>,
    /// Scheduled fires are held.
    pub paused: bool,
    /// The rights withdrawn, the gaps and the changes of schedule. Nobody owns anything in it.
    pub rights: Sharding,
    /// Whether each server is enabled.
    pub servers: BTreeMap<ServerAddress, bool>,
    /// What was announced of the latest fires.
    pub announced: BTreeMap<Stage, Announced>,
    /// Triggers by hand that wait.
    pub triggers: BTreeMap<Item, TriggerNode>,
    /// Where the last runs stopped.
    pub offsets: BTreeMap<Item, Vec<u8>>,
    /// The records.
    pub records: BTreeMap<Item, Record>,
}

impl Export {
    /// Tokens have 63 bits; above this there is no room left to go on rising for long.
    pub const MOST_TOKENS: u64 = Token::MOST.0;

    /// Tokens up to `given` have been given, whatever the file says.
    pub fn go_on_above(&mut self, given: Token) {
        self.tokens = self.tokens.max(given);
        for record in self.jobs.iter_mut().flat_map(|job| job.records.values_mut()) {
            record.token = record.token.max(given);
        }
    }

    /// The runs that were in flight: job, item and who ran it.
    pub fn in_flight(&self) -> Vec<String> {
        let runs = |job: &Job| -> Vec<String> {
            let running =
                job.records.iter().filter_map(|(item, record)| Some((item, record, record.running()?)));
            let line = |(item, record, run): (&Item, &Record, &rosterd_domain::item::Running)| {
                format!(
                    "{}/{item}: {} of {} by {}, token {}",
                    job.name, run.source, run.fire, run.instance, record.token
                )
            };
            running.map(line).collect()
        };
        self.jobs.iter().flat_map(runs).collect()
    }
}

impl Job {
    /// The job as it would be applied; the text says what of it cannot be understood.
    pub fn spec(&self) -> Result<JobSpec, job::Defects> {
        let config = JobConfig::from_node(self.config.as_bytes())?;
        let policy = self.policy.as_ref().map(|text| Policy::from_node(text.as_bytes())).transpose()?;
        let spec = JobSpec::stored(&self.handler, config, policy)?;
        view::validate(&spec)?;
        Ok(spec)
    }

    /// Whether a crashed run of the item is to be run again.
    fn requeues(&self, spec: &JobSpec, item: Item) -> bool {
        let config = spec.config();
        let disabled = config.disabled || self.rights.disabled_items.contains(&item);
        config.failover && config.monitor_execution && item.0 < config.sharding_total_count && !disabled
    }
}
