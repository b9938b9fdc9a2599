//! The effect of a coordinator's transaction on the shadow.

use rosterd_domain::sharding::Sharding;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Purpose, Txn, Write};

use crate::oracle::observer::{Inner, JobShadow, RecordChange};
use crate::oracle::reference_schedule::ReferenceSchedule;

impl Inner {
    pub fn follow(&mut self, session: &str, at: Time, txn: &Txn, changes: Vec<RecordChange>) {
        for change in changes {
            self.shadow.records.insert((change.job, change.item), change.after);
        }
        for write in &txn.writes {
            self.follow_write(session, at, txn, write);
        }
    }

    fn follow_write(&mut self, session: &str, at: Time, txn: &Txn, write: &Write) {
        let jobs = &mut self.shadow.jobs;
        match write {
            Write::CreateJob { job, incarnation, config, policy, assignment, .. } => {
                self.shadow.records.retain(|(of, _), _| of != job);
                let mut shadow = JobShadow { incarnation: incarnation.to_string(), ..JobShadow::default() };
                shadow.sharding = Sharding::decode(assignment).unwrap_or_default();
                configure(&mut shadow, config, i64::MIN);
                shadow.announces = announces(policy);
                self.shadow.unmonitored.extend((!shadow.monitor).then(|| job.clone()));
                jobs.insert(job.clone(), shadow);
            }
            Write::EndJob(job) => {
                jobs.remove(job);
                self.shadow.records.retain(|(of, _), _| of != job);
            }
            Write::Policy(job, policy) => {
                if let Some(shadow) = jobs.get_mut(job) {
                    shadow.announces = announces(policy);
                }
            }
            Write::Config(job, config) => {
                if let Some(shadow) = jobs.get_mut(job) {
                    let assignment = txn.writes.iter().find_map(|write| match write {
                        Write::Assignment { job: of, data, .. } if of == job => Sharding::decode(data).ok(),
                        _ => None,
                    });
                    let floor =
                        assignment.and_then(|sharding| sharding.floor).map_or(at.0, |floor| floor.at.0);
                    configure(shadow, config, floor);
                    self.shadow.unmonitored.extend((!shadow.monitor).then(|| job.clone()));
                }
            }
            Write::Paused(job, paused) => {
                if let Some(shadow) = jobs.get_mut(job) {
                    shadow.paused = *paused;
                }
            }
            Write::Assignment { job, data, .. } => {
                if let Some(shadow) = jobs.get_mut(job) {
                    shadow.sharding = Sharding::decode(data).unwrap_or_default();
                    shadow.generation += 1;
                    if txn.purpose == Purpose::ForeignConfig
                        && let Some(config) = shadow.foreign_config.take()
                    {
                        let floor = shadow.sharding.floor.as_ref().map_or(at.0, |floor| floor.at.0);
                        configure(shadow, &config, floor);
                        self.shadow.unmonitored.extend((!shadow.monitor).then(|| job.clone()));
                    }
                }
            }
            Write::Trigger { job, item, node } => {
                if let Some(shadow) = jobs.get_mut(job) {
                    shadow.triggers.insert(*item, node.clone());
                }
            }
            Write::RemoveTrigger(job, item) => {
                if let Some(shadow) = jobs.get_mut(job) {
                    shadow.triggers.remove(item);
                }
            }
            Write::Server { job, server, enabled } => {
                if let Some(shadow) = jobs.get_mut(job) {
                    let entry = shadow.servers.entry(server.to_string()).or_insert(true);
                    *entry = enabled.unwrap_or(*entry);
                }
            }
            Write::RemoveServer(job, server) => {
                if let Some(shadow) = jobs.get_mut(job) {
                    shadow.servers.remove(server.as_str());
                }
            }
            Write::RaiseNecessary(job) => {
                if let Some(shadow) = jobs.get_mut(job) {
                    shadow.necessary = Some(shadow.necessary.map_or(0, |version| version + 1));
                }
            }
            Write::ClearNecessary(job, _) => {
                if let Some(shadow) = jobs.get_mut(job) {
                    shadow.necessary = None;
                }
            }
            Write::Elect { job, .. } => {
                if let Some(shadow) = jobs.get_mut(job) {
                    shadow.leader = Some(session.to_owned());
                    shadow.deposed = None;
                    shadow.epoch += 1;
                    if shadow.epoch > 1 {
                        self.coverage.count("recovery: another leader");
                    }
                }
            }
            Write::Abdicate { job, .. } => {
                if let Some(shadow) = jobs.get_mut(job) {
                    shadow.leader = None;
                }
            }
            Write::Attachment { worker, node, .. } => {
                if let Some(before) =
                    self.shadow.attachments.get(worker).filter(|old| old.stream < node.stream)
                {
                    self.coverage.count(match (before.session == session, before.host == node.host) {
                        (true, _) => "recovery: attached again to the same host",
                        (false, true) => "recovery: attached to its host's next process",
                        (false, false) => "recovery: taken over by another host",
                    });
                }
                self.shadow.attachments.insert(worker.clone(), (**node).clone());
            }
            Write::RemoveAttachment { worker, .. } => {
                let before = self.shadow.attachments.remove(worker);
                let by = if before.is_some_and(|before| before.session == session) {
                    "the host"
                } else {
                    "another"
                };
                self.coverage.count(format!("recovery: {} by {by}", txn.purpose));
                self.shadow.departed.insert(worker.clone(), (txn.purpose, at));
            }
            _ => {}
        }
    }
}

fn announces(policy: &str) -> bool {
    let policy: serde_json::Value = serde_json::from_str(policy).unwrap_or_default();
    ["started", "completed"].iter().any(|stage| policy["guarantee"][stage] == true)
}

fn configure(shadow: &mut JobShadow, config: &str, floor: i64) {
    let config: serde_json::Value = serde_json::from_str(config).unwrap_or_default();
    let cron = config["cron"].as_str().unwrap_or_default();
    let due = ReferenceSchedule::read(cron, config["timeZone"].as_str());
    // A schedule that was to begin later, by a calendar that was ahead, never does.
    shadow.schedules.retain(|(from, _)| *from < floor);
    if shadow.schedules.last().map(|(_, due)| due) != Some(&due) {
        shadow.schedules.push((floor, due));
    }
    shadow.items = config["shardingTotalCount"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    shadow.disabled = config["disabled"].as_bool().unwrap_or(false);
    shadow.monitor = config["monitorExecution"].as_bool().unwrap_or(true);
    shadow.failover = config["failover"].as_bool().unwrap_or(false);
}
