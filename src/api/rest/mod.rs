//! REST under `/api`: Elastic-Job's routes with their meaning, and what the product has beside. The same rights, limits and
//! audit as gRPC: each change is an [`Operation`] that [`Operator`] carries out. It parses and shows; it decides nothing.

mod alarms;
mod change;
mod check;
mod config;
mod counts;
mod described;
mod document;
mod fires;
mod history;
mod live;
mod look;
mod overview;
mod paging;
pub(crate) mod problem;
pub(crate) mod session;
mod shape;
pub(crate) mod table;
mod told;

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, header};
use rosterd_domain::id::{InstanceId, JobName, NameError, ServerAddress};
use rosterd_runtime::clock::SharedClock;
use rosterd_session::code::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use self::paging::Paged;
use self::problem::Problem;
use self::session::Desk;
use crate::access::Principal;
use crate::alarms::Alarms;
use crate::backend::Backend;
use crate::history::History;
use crate::operator::Operator;

/// What the handlers share.
pub struct Rest {
    /// Who decides.
    pub backend: Arc<dyn Backend>,
    /// What was.
    pub history: Arc<dyn History>,
    /// Carries changes out.
    pub operator: Arc<Operator>,
    /// Alarms, to people.
    pub alarms: Arc<Alarms>,
    /// What time it is.
    pub clock: SharedClock,
    /// Cancelled when watchers are to leave.
    pub stop: CancellationToken,
    /// What has happened lately, for watchers that come back.
    pub recent: Arc<Recent>,
    /// Where people log in.
    pub(crate) desk: Arc<Desk>,
    /// The last overview, for all who ask.
    pub overview: Overviews,
    /// The page of a trace, `{trace_id}` in it.
    pub trace_url: Option<String>,
}

pub use self::live::Recent;
pub(crate) use self::live::follow;
pub use self::overview::Kept as Overviews;

type Shared = axum::extract::State<Arc<Rest>>;
type Answer<T> = Result<Json<T>, Problem>;

/// The routes.
pub(crate) fn routes(rest: Arc<Rest>) -> Router {
    let (router, _) = document::routes().split_for_parts();
    router.method_not_allowed_fallback(other_method).with_state(rest)
}

/// Whether a path is of this API, or would be.
pub(crate) fn is_api(path: &str) -> bool {
    path.strip_prefix("/api").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The answer to a path of it that is none.
pub(crate) fn unknown(path: &str) -> Response {
    let what = format!("{path} is not a path of this API: see /api");
    Problem::new(Code::RequestInvalid, what).under(http::StatusCode::NOT_FOUND).into_response()
}

async fn other_method(request: Request) -> Problem {
    let path = request.uri().path();
    match table::find(request.method(), path) {
        Some(table::Found::OtherMethod(route)) => Problem::method(path, route.method),
        _ => Problem::invalid("method", format!("{} is not taken here: see /api", request.method())),
    }
}

/// A JSON answer.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => {
                let mut response = Response::new(body.into());
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
                headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
                response
            }
            Err(error) => {
                tracing::error!(%error, "an answer cannot be written as JSON: this is a defect, report it");
                Problem::new(Code::Defect, "the answer cannot be written as JSON").into_response()
            }
        }
    }
}

/// A page of rows, with the address of the next one.
pub(crate) struct Page<T>(Paged<T>, String);

impl<T> Page<T> {
    /// `request`: the query that was asked.
    fn of(paged: Paged<T>, request: &http::Uri) -> Self {
        let Some(cursor) = &paged.next else { return Self(paged, String::new()) };
        let query = request.query().unwrap_or_default();
        let mut kept: Vec<&str> =
            query.split('&').filter(|part| !part.is_empty() && !part.starts_with("cursor=")).collect();
        let next = format!("cursor={cursor}");
        kept.push(&next);
        // Relative to what was asked: so it holds behind a proxy that has another path for all of this.
        let link = format!("<?{}>; rel=\"next\"", kept.join("&"));
        Self(paged, link)
    }
}

impl<T: Serialize> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.0.rows).into_response();
        if let Some(link) = HeaderValue::from_str(&self.1).ok().filter(|link| !link.is_empty()) {
            response.headers_mut().insert(header::LINK, link);
        }
        response
    }
}

/// A query whose fields are known.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let parsed = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        parsed.map(|query| Self(query.0)).map_err(|error| Problem::invalid("query", error.body_text()))
    }
}

/// Who asks; `None`: nobody is asked who they are.
pub(crate) struct Who(pub(crate) Option<Principal>);

impl<S: Sync> FromRequestParts<S> for Who {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.extensions.get::<Principal>().cloned()))
    }
}

fn named<T>(field: &str, parsed: Result<T, NameError>) -> Result<T, Problem> {
    parsed.map_err(|error| Problem::new(Code::NameInvalid, format!("{field}: {error}")))
}

fn job(text: String) -> Result<JobName, Problem> {
    named("job", JobName::new(text))
}

fn server(text: String) -> Result<ServerAddress, Problem> {
    named("server", ServerAddress::new(text))
}

fn instance(text: String) -> Result<InstanceId, Problem> {
    named("instance", InstanceId::new(text))
}
