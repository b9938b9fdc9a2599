//! The HTTP side: the console, a plain status page, metrics for a scraper, and a probe. It only reads.

mod answer;
mod login;
mod page;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use self::answer::{TEXT, answer, refused};
use super::backend::Backend;
use super::console::Console;
use super::rest;
use super::rest::Desk;
use rosterd_coordinator::handle::Health;
use rosterd_runtime::telemetry::{Metrics, as_text_format};

/// The data that is shown.
pub struct Site {
    /// The coordinator.
    pub backend: Arc<dyn Backend>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
}

/// The routes; all other paths belong to the console, or are unknown.
pub(crate) fn routes(site: Arc<Site>, console: Arc<Console>, desk: Arc<Desk>) -> Router {
    let rest = move |request: Request| {
        let answer = console.answer(&request);
        async move { answer.unwrap_or_else(|| unknown(&request)) }
    };
    pages().route("/plain", get(overview)).with_state(site).merge(login::routes(desk)).fallback(rest)
}

/// The routes for monitoring; all other paths are unknown.
pub fn monitoring(site: Arc<Site>) -> Router {
    pages().with_state(site).fallback(|request: Request| async move { unknown(&request) })
}

fn pages() -> Router<Arc<Site>> {
    Router::new().route("/metrics", get(metrics)).route("/healthz", get(healthz))
}

async fn overview(State(site): State<Arc<Site>>) -> Response {
    let (jobs, instances) = match (site.backend.jobs().await, site.backend.instances(None).await) {
        (Ok(jobs), Ok(instances)) => (jobs, instances),
        (Err(refusal), _) | (_, Err(refusal)) => return refused(&refusal),
    };
    let health = *site.backend.health().borrow();
    let html = page::render(site.backend.namespace(), health, &jobs, &instances);
    let mut response = answer(StatusCode::OK, "text/html; charset=utf-8", html);
    let policy =
        HeaderValue::from_str(&page::policy()).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// OpenMetrics for clients that accept it by name, as Prometheus does: browsers and curl get the older text, which all
/// tools read.
async fn metrics(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    let page = site.metrics.encode();
    let mut response = if accepts_openmetrics(&headers) {
        answer(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", page)
    } else {
        answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", as_text_format(&page))
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

fn accepts_openmetrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        let named =
            parts.next().is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"));
        let refused = |part: &str| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        named && !parts.any(refused)
    })
}

async fn healthz(State(site): State<Arc<Site>>) -> Response {
    let health = *site.backend.health().borrow();
    let code = if health == Health::Serving { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(code, TEXT, format!("{}\n", page::health_text(health)))
}

fn unknown(request: &Request) -> Response {
    if super::layers::is_grpc(request.headers()) {
        return tonic::Status::unimplemented("no such service").into_http();
    }
    let path = request.uri().path();
    if rest::is_api(path) {
        return rest::unknown(path);
    }
    answer(StatusCode::NOT_FOUND, TEXT, "no such page\n".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(value: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(header::ACCEPT, HeaderValue::from_str(value).unwrap());
        }
        accepts_openmetrics(&headers)
    }

    #[test]
    fn openmetrics_is_for_clients_that_name_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert!(accepts(Some(prometheus)) && accepts(Some("Application/OpenMetrics-Text")));
        for other in
            [None, Some("*/*"), Some("text/plain"), Some("application/openmetrics-text;q=0, text/plain")]
        {
            assert!(!accepts(other), "{other:?}");
        }
    }
}
