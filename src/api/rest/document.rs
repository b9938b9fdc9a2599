//! The routes with their description: OpenAPI 3.1, generated from the handlers, and a page that shows it without any
//! script.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use rosterd_runtime::version::version;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    Json, Rest, alarms, change, check, config, counts, described, fires, history, live, look, overview,
    session,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "rosterd",
        description = "Jobs, items, machines and coordinators of one namespace. Every coordinator serves this API. A change is \
                       acknowledged once its effect is durable. A refused request is answered by application/problem+json \
                       with a code. To address a job named `count` or `config`, percent-encode one letter of its name."
    ),
    tags(
        (name = "jobs", description = "Jobs and their items"),
        (name = "configuration", description = "The configuration of jobs"),
        (name = "servers", description = "Machines and the worker processes on them"),
        (name = "history", description = "Past runs, and live events"),
        (name = "session", description = "Logging in and out, for browsers"),
        (name = "alarms", description = "Current problems, the notifications sent, and silences"),
        (name = "cluster", description = "Coordinators, errors, this document"),
    )
)]
struct Described;

/// All routes. A test compares them with the table of rights.
pub(super) fn routes() -> OpenApiRouter<Arc<Rest>> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(look::count_servers))
        .routes(routes!(look::list_servers))
        .routes(routes!(change::disable_server, change::enable_server))
        .routes(routes!(change::shut_server_down))
        .routes(routes!(change::remove_server))
        .routes(routes!(look::server_jobs))
        .routes(routes!(change::disable_server_job, change::enable_server_job))
        .routes(routes!(change::shut_server_job_down))
        .routes(routes!(change::remove_server_job))
        .routes(routes!(look::count_jobs))
        .routes(routes!(look::list_jobs))
        .routes(routes!(config::put_config))
        .routes(routes!(check::check_config))
        .routes(routes!(config::get_config, change::remove_job))
        .routes(routes!(look::get_job))
        .routes(routes!(change::trigger))
        .routes(routes!(change::disable_job, change::enable_job))
        .routes(routes!(change::pause_job, change::resume_job))
        .routes(routes!(change::shut_job_down))
        .routes(routes!(look::list_items))
        .routes(routes!(look::explain_item))
        .routes(routes!(change::disable_item, change::enable_item))
        .routes(routes!(change::cancel_run))
        .routes(routes!(history::list_fires))
        .routes(routes!(history::ownership))
        .routes(routes!(look::list_instances))
        .routes(routes!(change::drain))
        .routes(routes!(history::runs))
        .routes(routes!(history::run))
        .routes(routes!(fires::fires))
        .routes(routes!(history::events))
        .routes(routes!(counts::counts))
        .routes(routes!(look::cluster))
        .routes(routes!(overview::overview))
        .routes(routes!(alarms::list_alarms))
        .routes(routes!(alarms::put_silence, alarms::delete_silence))
        .routes(routes!(alarms::test_alarms))
        .routes(routes!(live::live))
        .routes(routes!(session::get_session, session::log_in, session::log_out))
        .routes(routes!(look::error_page))
        .routes(routes!(document))
        .routes(routes!(page))
}

pub(super) static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let mut document = routes().into_openapi();
    document.info.version = version();
    described::complete(document)
});

#[utoipa::path(get, path = "/api/openapi.json", tag = "cluster", responses((status = 200, body = Object, description = "This API as OpenAPI 3.1.")))]
/// Describes this API to programs.
async fn document() -> Json<&'static Document> {
    Json(&DOCUMENT)
}

#[utoipa::path(get, path = "/api", tag = "cluster", responses((status = 200, body = String, content_type = "text/html", description = "An HTML page.")))]
/// Describes this API to people.
async fn page() -> Response {
    let mut response = render(&DOCUMENT).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    );
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The document as a page. All of it is our own text, but it is escaped nevertheless.
fn render(document: &Document) -> String {
    let mut html = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>rosterd API</title><h1>rosterd API</h1>",
    );
    let about = document.info.description.clone().unwrap_or_default();
    let _ = write!(html, "<p>{} <a href=\"api/openapi.json\">OpenAPI 3.1</a></p>", escaped(&about));
    let value = serde_json::to_value(document).unwrap_or_default();
    let paths = value["paths"].as_object().cloned().unwrap_or_default();
    for tag in value["tags"].as_array().into_iter().flatten() {
        let name = tag["name"].as_str().unwrap_or_default();
        let _ = write!(html, "<h2>{}</h2><dl>", escaped(tag["description"].as_str().unwrap_or(name)));
        for (path, methods) in &paths {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                if operation["tags"][0] == name {
                    let _ = write!(html, "{}", route(path, method, operation));
                }
            }
        }
        html.push_str("</dl>");
    }
    html
}

fn route(path: &str, method: &str, operation: &serde_json::Value) -> String {
    let summary = operation["summary"].as_str().unwrap_or_default();
    let mut text =
        format!("<dt><code>{} {}</code></dt><dd>{}", method.to_uppercase(), escaped(path), escaped(summary));
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    if !parameters.is_empty() {
        text.push_str("<ul>");
        for parameter in &parameters {
            let name = parameter["name"].as_str().unwrap_or_default();
            let place = parameter["in"].as_str().unwrap_or_default();
            let about = parameter["description"].as_str().unwrap_or_default();
            let _ = write!(
                text,
                "<li><code>{}</code> ({}) {}</li>",
                escaped(name),
                escaped(place),
                escaped(about)
            );
        }
        text.push_str("</ul>");
    }
    text.push_str("</dd>");
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rest::table::ROUTES;

    #[test]
    fn the_table_of_rights_and_the_document_name_the_same_routes() {
        let value = serde_json::to_value(&*DOCUMENT).unwrap();
        assert!(value["openapi"].as_str().unwrap().starts_with("3.1"));
        let described: BTreeSet<(String, String)> = value["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, methods)| {
                methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
            })
            .collect();
        let table: BTreeSet<(String, String)> =
            ROUTES.iter().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
        assert_eq!(described, table);
    }

    #[test]
    fn the_page_names_every_route() {
        let page = render(&DOCUMENT);
        for route in ROUTES {
            assert!(page.contains(&format!("<code>{} {}</code>", route.method, route.path)), "{route:?}");
        }
    }
}
