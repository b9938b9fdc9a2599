//! REST under `/api`: Elastic-Job's routes with their meaning, and routes for everything else. The same rights, limits
//! and audit as gRPC: each change is an [`Operation`] that [`Operator`] executes. It parses and formats; it decides
//! nothing.

mod alarms;
mod change;
mod check;
mod config;
mod counts;
mod described;
mod desk;
mod document;
mod explained;
mod fires;
mod history;
mod live;
mod look;
mod overview;
mod overviews;
mod paging;
mod parts;
pub(crate) mod problem;
mod recent;
pub(crate) mod session;
mod shape;
mod shared;
pub(crate) mod table;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use rosterd_session::code::Code;

use self::problem::Problem;

pub(crate) use self::desk::Desk;
pub use self::overviews::Kept as Overviews;
use self::parts::{Json, JsonResult, Page, Query, Who, instance, job, server};
pub use self::recent::Recent;
pub(crate) use self::recent::follow;
pub use self::shared::Rest;
use self::shared::Shared;
pub(crate) use self::table::is_api;

/// The routes.
pub(crate) fn routes(rest: Arc<Rest>) -> Router {
    let (router, _) = document::routes().split_for_parts();
    router.method_not_allowed_fallback(other_method).with_state(rest)
}

/// The answer to an unknown path below `/api`.
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
