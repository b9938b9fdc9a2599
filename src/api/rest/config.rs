//! A job's configuration: reads return a tag, and writes require it, so that nobody overwrites what they have not seen.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rosterd_coordinator::handle::Operation;
use rosterd_domain::job::{self as file, JobSpec};
use rosterd_session::code::Code;
use rosterd_wire::convert::MAX_CONFIG;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use utoipa::IntoParams;

use super::problem::Problem;
use super::shape::{self, JobChange};
use super::{Json, JsonResult, Query, Rest, Shared, Who, job};

/// The job that is stored under a name; a problem if it does not exist.
async fn stored(rest: &Rest, name: &str) -> Result<JobSpec, Problem> {
    let name = job(name.to_owned())?;
    let text = rest.backend.job(&name, 0).await?.spec;
    let unreadable =
        |why: String| Problem::new(Code::ConfigInvalid, format!("the stored configuration of {name}: {why}"));
    let specs = file::parse_file(text.as_bytes()).map_err(|defects| unreadable(defects.to_string()))?;
    specs.into_iter().next().ok_or_else(|| unreadable("it is empty".to_owned()))
}

/// Changes with the configuration, and with nothing else.
fn tag(spec: &JobSpec) -> String {
    let digest = Sha256::digest(spec.to_file());
    format!("\"{}\"", hex::encode(&digest[..16]))
}

#[utoipa::path(get, path = "/api/jobs/config/{job}", tag = "configuration", params(("job" = String, Path)), responses((status = 200, body = Object, description = "The job file as JSON, with Elastic-Job's field names. The header ETag identifies this version of it."), (status = 404, body = Problem)))]
/// Shows a job's configuration.
pub(super) async fn get_config(State(rest): Shared, Path(name): Path<String>) -> Result<Response, Problem> {
    let spec = stored(&rest, &name).await?;
    let mut response = Json(shape::raw(spec.to_json_file())).into_response();
    let tag = HeaderValue::from_str(&tag(&spec)).unwrap_or(HeaderValue::from_static("\"\""));
    response.headers_mut().insert(header::ETAG, tag);
    Ok(response)
}

/// Options for applying a job file.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Apply {
    /// Change nothing: return what would change.
    #[serde(default)]
    dry_run: bool,
}

#[utoipa::path(put, path = "/api/jobs/config", tag = "configuration", params(Apply, ("If-Match" = Option<String>, Header, description = "The ETag of the configuration to replace: if it has changed since, the request is refused with 412. Only for a file with one job.")), request_body(description = "A job file with one or several jobs, with Elastic-Job's field names: an object, or a list of objects.", content((Object = "application/json"), (String = "application/yaml"))), responses((status = 200, body = Vec<JobChange>), (status = 400, body = Problem), (status = 412, body = Problem)))]
/// Creates or changes jobs.
pub(super) async fn put_config(
    State(rest): Shared,
    who: Who,
    headers: HeaderMap,
    Query(how): Query<Apply>,
    text: String,
) -> JsonResult<Vec<JobChange>> {
    if text.len() > MAX_CONFIG {
        let what = format!("{} bytes are more than {MAX_CONFIG}: apply the jobs in parts", text.len());
        return Err(Problem::invalid("body", what));
    }
    let mut operation = Operation::apply(&text, how.dry_run)?;
    if let (Some(wanted), Operation::Apply { specs, expected, .. }) =
        (headers.get(header::IF_MATCH), &mut operation)
    {
        let [spec] = &specs[..] else {
            return Err(Problem::invalid(
                "If-Match",
                "it goes with a file of one job: apply them one by one",
            ));
        };
        let current = stored(&rest, spec.config().job_name.as_str()).await.ok();
        let current = current.filter(|current| {
            let names = wanted.to_str().unwrap_or_default();
            names.split(',').any(|name| name.trim() == "*" || name.trim() == tag(current))
        });
        // If the configuration changes before the commit, the change is refused.
        *expected = Some(Box::new(current.ok_or_else(changed)?));
    }
    let done = rest.operator.operate(who.0, operation).await.map_err(|refusal| match refusal.code {
        Code::ConfigChanged => Problem::from(refusal).under(StatusCode::PRECONDITION_FAILED),
        _ => refusal.into(),
    })?;
    Ok(Json(done.changes.into_iter().map(shape::change).collect()))
}

fn changed() -> Problem {
    let what =
        "the configuration does not match If-Match: it may have changed; read it again, and change that";
    Problem::new(Code::ConfigChanged, what).under(StatusCode::PRECONDITION_FAILED)
}
