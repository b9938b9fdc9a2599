//! Checks a configuration without changing anything: what is wrong with it, what it would change, and when it would
//! fire.

use axum::extract::State;
use rosterd_coordinator::handle::Operation;
use rosterd_domain::job::{self as file, Defect, JobSpec};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::time::Time;
use rosterd_domain::view::{self, Rules};
use rosterd_wire::convert::MAX_CONFIG;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;
use super::shape::{self, FieldChange, time};
use super::{Json, JsonResult, Shared, Who};

/// How many scheduled times are returned.
const UPCOMING: usize = 20;

/// The result of checking a configuration.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Checked {
    /// The name, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job_name: Option<String>,
    /// All defects; empty if it can be applied.
    pub(crate) defects: Vec<FieldDefect>,
    /// `would_create`, `would_change` or `unchanged`; absent if it cannot be applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effect: Option<&'static str>,
    /// The fields that differ from the stored configuration.
    pub(crate) fields: Vec<FieldChange>,
    /// Fields that would be stored without effect, and what to use instead.
    pub(crate) warnings: Vec<String>,
    /// Its next 20 scheduled times; empty if it would run only when triggered, or has no scheduled time left.
    pub(crate) upcoming: Vec<String>,
}

/// A defect of a configuration.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FieldDefect {
    /// Its path, for example `rosterd.retries.max_attempts`; empty if it concerns the whole file.
    pub(crate) field: String,
    /// The value, if it may be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

#[utoipa::path(post, path = "/api/jobs/config/check", tag = "configuration", request_body(description = "A job file with one job.", content((Object = "application/json"), (String = "application/yaml"))), responses((status = 200, body = Checked), (status = 400, body = Problem)))]
/// Checks a configuration without applying it: returns all defects by field, what it would change, and when it would
/// fire.
pub(super) async fn check_config(State(rest): Shared, who: Who, text: String) -> JsonResult<Checked> {
    if text.len() > MAX_CONFIG {
        return Err(Problem::invalid("body", format!("{} bytes are more than {MAX_CONFIG}", text.len())));
    }
    let specs = match file::parse_file_with(text.as_bytes(), view::validate) {
        Ok(specs) => specs,
        Err(defects) => return Ok(Json(defective(defects.iter()))),
    };
    let [spec] = &specs[..] else {
        return Err(Problem::invalid("body", format!("it has {} jobs: check them one by one", specs.len())));
    };
    let upcoming = upcoming(spec, rest.clock.wall()).into_iter().map(time).collect();
    let job_name = Some(spec.config().job_name.to_string());
    let operation = Operation::Apply { specs, dry_run: true, expected: None };
    let done = rest.operator.try_out(who.0, operation).await?;
    let Some(change) = done.changes.into_iter().next().map(shape::change) else {
        return Ok(Json(Checked { job_name, upcoming, ..Checked::default() }));
    };
    let (effect, defects) = (Some(change.effect), Vec::new());
    Ok(Json(Checked {
        job_name,
        defects,
        effect,
        fields: change.fields,
        warnings: change.warnings,
        upcoming,
    }))
}

fn defective<'a>(defects: impl Iterator<Item = &'a Defect> + Clone) -> Checked {
    let job_name = defects.clone().find_map(|defect| defect.job.clone());
    let of = |defect: &Defect| {
        let remedy = if defect.remedy.is_empty() { String::new() } else { format!("; {}", defect.remedy) };
        FieldDefect {
            field: defect.field.clone(),
            value: defect.value.clone(),
            message: format!("{}{remedy}", defect.problem),
        }
    };
    Checked { job_name, defects: defects.map(of).collect(), ..Checked::default() }
}

/// The next scheduled times if it were applied now.
fn upcoming(spec: &JobSpec, now: Time) -> Vec<Time> {
    let schedule = Rules::of(spec, &Sharding::made_at(now)).ok().and_then(|rules| rules.schedule);
    schedule.iter().flat_map(|schedule| schedule.iter(now).take(UPCOMING)).collect()
}
