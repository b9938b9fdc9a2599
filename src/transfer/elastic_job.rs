//! Jobs of Elastic-Job's own, as they were found in an ensemble, become jobs of ours. Nothing is left out in silence:
//! for each job it reports what is kept without effect, and what stays behind.

use std::collections::BTreeMap;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::job::{self, Defects, JobSpec};
use rosterd_domain::sharding::{Sharding, Stated};
use rosterd_domain::time::Time;
use rosterd_domain::view;

use super::Job;
use rosterd_registry::zookeeper::foreign::ForeignJob;

/// A job that can be taken over.
#[derive(Debug)]
pub struct Taken {
    /// The job.
    pub job: Job,
    /// The same as a person would apply it.
    pub spec: JobSpec,
    /// What should be known.
    pub notes: Vec<String>,
}

/// Translates one job; `Err`: every defect of it, in words.
pub fn job(found: &ForeignJob, now: Time) -> Result<Taken, Vec<String>> {
    let said = |defects: Defects| defects.iter().map(ToString::to_string).collect::<Vec<_>>();
    let spec = spec(found).map_err(said)?;
    view::validate(&spec).map_err(said)?;
    let mut rights = Sharding::made_at(now);
    rights.disabled_items.clone_from(&found.disabled_items);
    rights.stated = Some(Stated::by(spec.config()));
    let job = Job {
        name: found.name.clone(),
        handler: spec.handler().to_owned(),
        config: spec.config().to_json(),
        policy: Some(spec.policy().to_json()),
        paused: false,
        rights,
        servers: found.servers.clone(),
        announced: BTreeMap::new(),
        triggers: BTreeMap::new(),
        offsets: found.offsets.iter().map(|(item, data)| (*item, data.to_vec())).collect(),
        records: BTreeMap::new(),
    };
    // What was read from another's node must be what we would read from our own.
    job.spec().map_err(said)?;
    Ok(Taken { notes: notes(found, &spec), job, spec })
}

/// Which jobs have processes that live: two schedulers would run them both.
pub fn live(jobs: &[ForeignJob]) -> Vec<String> {
    let running = jobs.iter().filter(|job| !job.live.is_empty());
    running
        .map(|job| {
            let who = job.live.join(", ");
            format!("{}: {who} live and fire it: stop them first, or say --running", job.name)
        })
        .collect()
}

fn spec(found: &ForeignJob) -> Result<JobSpec, Defects> {
    if found.fields.is_empty() {
        let root = String::from_utf8_lossy(&found.root);
        return JobSpec::from_foreign_node(&found.name, root.trim(), &found.config);
    }
    let text = |data: &Vec<u8>| String::from_utf8_lossy(data).into_owned();
    let fields = found.fields.iter().map(|(name, data)| (name.clone(), text(data)));
    JobSpec::from_v1_nodes(&found.name, &fields.collect())
}

fn notes(found: &ForeignJob, spec: &JobSpec) -> Vec<String> {
    let mut notes = spec.notes();
    if spec.config().cron.is_none() {
        notes.push("it has no cron: it runs only when triggered".to_owned());
    }
    let mut left = |items: Vec<Item>, what: &str| {
        if !items.is_empty() {
            let items = items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            notes.push(format!("{what} of items {items} stay behind"));
        }
    };
    left(found.misfires.iter().copied().collect(), "misfires that wait");
    left(found.failover.iter().copied().collect(), "crashed runs that wait for a taker");
    if !found.strange_servers.is_empty() {
        let servers = found.strange_servers.join(", ");
        notes.push(format!("servers {servers} stay behind: these cannot be names here"));
    }
    notes
}

/// What `--as-files` does not put into a file, and what of the file must be corrected: files are read more strictly
/// than nodes.
pub fn beside_file(found: &ForeignJob, spec: &JobSpec) -> Vec<String> {
    let disabled =
        found.servers.iter().filter(|(_, enabled)| !**enabled).map(|(server, _)| server.to_string());
    let disabled: Vec<String> = disabled.collect();
    let mut notes: Vec<String> = match job::parse_file(spec.to_file().as_bytes()) {
        Ok(_) => Vec::new(),
        Err(defects) => defects.iter().map(|defect| format!("correct in the file: {defect}")).collect(),
    };
    if !disabled.is_empty() {
        notes.push(format!("a job file has no place for disabled servers: {}", disabled.join(", ")));
    }
    if !found.disabled_items.is_empty() {
        let items: Vec<String> = found.disabled_items.iter().map(ToString::to_string).collect();
        notes.push(format!("a job file has no place for disabled items: {}", items.join(", ")));
    }
    if !found.offsets.is_empty() {
        notes.push(format!("a job file has no place for the offsets of {} items", found.offsets.len()));
    }
    notes
}

/// The names that were asked for and are not there.
pub fn unknown(found: &[ForeignJob], wanted: &[JobName]) -> Vec<JobName> {
    wanted.iter().filter(|name| !found.iter().any(|job| job.name == **name)).cloned().collect()
}
