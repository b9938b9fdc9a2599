//! The job that `rosterd exec` registers: its flags as a job file in Elastic-Job's field names.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rosterd_domain::strategy;
use serde_json::{Map, Value, json};

use crate::cli::failure::{Failure, Result};
use crate::cli::options::read_text;
use crate::config::value;

/// Strategies that Elastic-Job has no name for stand under our own key.
const OURS: &[&str] = &["STICKY"];

/// Each of these flags makes the job, if it is not there yet.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Registering the job, if it is not there")]
pub(crate) struct Registration {
    /// When it fires, Quartz notation; without: only when triggered
    #[arg(long, value_name = "EXPR")]
    pub(crate) cron: Option<String>,
    /// IANA name of the schedule's zone [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// How many items [default: 1]
    #[arg(long, value_name = "N")]
    items: Option<u32>,
    /// A parameter per item: 0=Beijing,1=Shanghai
    #[arg(long, value_name = "0=A,1=B")]
    parameters: Option<String>,
    /// One parameter for all items
    #[arg(long, value_name = "TEXT")]
    job_parameter: Option<String>,
    /// Run an item again elsewhere when its worker died
    #[arg(long)]
    failover: bool,
    /// Do not run once more after a run that was too long
    #[arg(long)]
    no_misfire: bool,
    /// Keep no record of running items
    #[arg(long, conflicts_with = "failover")]
    no_monitor_execution: bool,
    /// How items are spread: AVG_ALLOCATION, ODEVITY, ROUND_ROBIN, STICKY
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// Free text
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A run that takes longer is stopped
    #[arg(long = "run-timeout", alias = "timeout", value_name = "DURATION", value_parser = value::positive)]
    timeout: Option<Duration>,
    /// A worker that is silent for so long is dead, where that is less than the lease
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    pub(crate) disconnect_grace: Option<Duration>,
    /// Replace what is registered
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// A job file, YAML or JSON, instead of these flags
    #[arg(
        short,
        long = "file",
        alias = "config",
        value_name = "FILE",
        conflicts_with_all = [
            "cron", "time_zone", "items", "parameters", "job_parameter", "failover", "no_misfire",
            "no_monitor_execution", "strategy", "description", "timeout", "disconnect_grace",
        ]
    )]
    config: Option<PathBuf>,
}

impl Registration {
    /// The job file; none when the job must be there already.
    pub(crate) fn text(&self, job: &str, handler: Option<&str>) -> Result<Option<String>> {
        if let Some(path) = &self.config {
            return read_text(path).map(Some);
        }
        let fields = self.fields()?;
        let own = self.own_fields(handler);
        if fields.is_empty() && own.keys().all(|key| key == "kind" || key == "handler") {
            if self.overwrite {
                return Err(Failure::usage(
                    "--overwrite: there is nothing to overwrite with; give --cron, --items or --file",
                ));
            }
            return Ok(None);
        }
        let mut file = Map::new();
        file.insert("jobName".into(), job.into());
        file.insert("shardingTotalCount".into(), self.items.unwrap_or(1).into());
        file.extend(fields);
        if self.overwrite {
            file.insert("overwrite".into(), true.into());
        }
        file.insert("rosterd".into(), own.into());
        Ok(Some(Value::Object(file).to_string()))
    }

    /// Elastic-Job's fields, those that were given.
    fn fields(&self) -> Result<Map<String, Value>> {
        let text = |text: &Option<String>| text.clone().map(Value::from);
        let strategy = self.strategy.as_deref().filter(|name| !OURS.contains(name));
        if let Some(name) = &self.strategy {
            strategy::by_name(name).map_err(Failure::usage)?;
        }
        let fields = [
            ("cron", text(&self.cron)),
            ("timeZone", text(&self.time_zone)),
            ("shardingTotalCount", self.items.map(Value::from)),
            ("shardingItemParameters", text(&self.parameters)),
            ("jobParameter", text(&self.job_parameter)),
            ("failover", self.failover.then(|| true.into())),
            ("misfire", self.no_misfire.then(|| false.into())),
            ("monitorExecution", self.no_monitor_execution.then(|| false.into())),
            ("jobShardingStrategyType", strategy.map(Value::from)),
            ("description", text(&self.description)),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Ok(given.collect())
    }

    /// What Elastic-Job has no field for.
    fn own_fields(&self, handler: Option<&str>) -> Map<String, Value> {
        let millis = |time: Option<Duration>| {
            time.map(|time| json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
        };
        let strategy = self.strategy.as_deref().filter(|name| OURS.contains(name));
        let fields = [
            ("kind", Some("command".into())),
            ("handler", handler.map(Value::from)),
            ("strategy", strategy.map(Value::from)),
            ("run_timeout_ms", millis(self.timeout)),
            ("disconnect_grace_ms", millis(self.disconnect_grace)),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        given.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(registration: Registration) -> Value {
        let text = registration.text("words", None).unwrap();
        text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn without_flags_the_job_must_exist() {
        assert_eq!(file(Registration::default()), Value::Null);
        assert!(Registration { overwrite: true, ..Registration::default() }.text("words", None).is_err());
    }

    #[test]
    fn flags_become_a_job_file() {
        let file = file(Registration {
            cron: Some("0/5 * * * * ?".into()),
            items: Some(2),
            parameters: Some("0=A,1=B".into()),
            failover: true,
            strategy: Some("STICKY".into()),
            timeout: Some(Duration::from_secs(90)),
            ..Registration::default()
        });
        let wanted = json!({
            "jobName": "words", "cron": "0/5 * * * * ?", "shardingTotalCount": 2,
            "shardingItemParameters": "0=A,1=B", "failover": true,
            "rosterd": { "kind": "command", "strategy": "STICKY", "run_timeout_ms": 90_000 },
        });
        assert_eq!(file, wanted);
    }

    #[test]
    fn elastic_jobs_own_strategies_stay_in_its_field() {
        let registration = Registration { strategy: Some("ODEVITY".into()), ..Registration::default() };
        let file = file(registration);
        assert_eq!(file["jobShardingStrategyType"], "ODEVITY");
        assert_eq!(file["shardingTotalCount"], 1);
        assert_eq!(file["rosterd"], json!({ "kind": "command" }));
    }
}
