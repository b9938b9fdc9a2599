//! Inputs and outputs of handlers: queries, the caller, names, JSON, a page of rows.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, Uri, header};
use rosterd_domain::id::{InstanceId, JobName, NameError, ServerAddress};
use rosterd_session::code::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::paging::Paged;
use super::problem::Problem;
use crate::access::Principal;

pub(super) type JsonResult<T> = Result<Json<T>, Problem>;

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
    /// `request`: the original query.
    pub(super) fn of(paged: Paged<T>, request: &Uri) -> Self {
        let Some(cursor) = &paged.next else { return Self(paged, String::new()) };
        let query = request.query().unwrap_or_default();
        let mut kept: Vec<&str> =
            query.split('&').filter(|part| !part.is_empty() && !part.starts_with("cursor=")).collect();
        let next = format!("cursor={cursor}");
        kept.push(&next);
        // Relative to the request, so that it works behind a proxy with another base path.
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

/// The caller; `None`: authentication is off.
pub(crate) struct Who(pub(crate) Option<Principal>);

impl<S: Sync> FromRequestParts<S> for Who {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.extensions.get::<Principal>().cloned()))
    }
}

pub(super) fn named<T>(field: &str, parsed: Result<T, NameError>) -> Result<T, Problem> {
    parsed.map_err(|error| Problem::new(Code::NameInvalid, format!("{field}: {error}")))
}

pub(super) fn job(text: String) -> Result<JobName, Problem> {
    named("job", JobName::new(text))
}

pub(super) fn server(text: String) -> Result<ServerAddress, Problem> {
    named("server", ServerAddress::new(text))
}

pub(super) fn instance(text: String) -> Result<InstanceId, Problem> {
    named("instance", InstanceId::new(text))
}
