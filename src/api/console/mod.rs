//! The console's files, as built, and the headers that make them safe. They hold nothing secret and are served to
//! everybody, so that a person can log in; the console's data comes from `/api`, with the person's rights.
//! `console/embed.rs` compiles them in, gzipped if that is shorter: nothing is compressed per request.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};

use crate::layers::methods;
use crate::rest;

/// One file of the console.
struct File {
    /// Below the console's folder.
    path: &'static str,
    /// Its media type.
    kind: &'static str,
    /// Changes with its contents.
    tag: &'static str,
    bytes: &'static [u8],
    /// The same, gzipped, if that is shorter.
    gzip: Option<&'static [u8]>,
}

static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// The page for all addresses of the console: its script reads the address.
const INDEX: &str = "index.html";

/// The folder of files that the build names by their contents, so that a changed file has another name.
const HASHED: &str = "assets/";

/// Nothing but what came with the page, no inline script or style, no foreign frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      connect-src 'self'; manifest-src 'self'; base-uri 'self'; form-action 'self'; \
                      frame-ancestors 'none'";

/// The console under its base path.
#[derive(Debug)]
pub(crate) struct Console {
    index: Bytes,
    tag: HeaderValue,
}

impl Console {
    /// `base`: the base path of the coordinator, plain and without a trailing slash; empty: none.
    pub(crate) fn new(base: &str) -> Arc<Self> {
        let file = FILES.iter().find(|file| file.path == INDEX);
        let html = file.map(|file| String::from_utf8_lossy(file.bytes)).unwrap_or_default();
        // All addresses in the page are relative to this one, even if it was requested with a deeper path.
        let base_tag = format!("<base href=\"{base}/\">");
        let at = html.find("<head>").map_or(0, |at| at + "<head>".len());
        let (before, after) = html.split_at(at);
        let tag = file.map_or("\"\"", |file| file.tag);
        // The base path is set when the coordinator starts, and changes the page like an edit would.
        let tag = format!("\"{}-{}\"", tag.trim_matches('"'), base.replace('/', "."));
        Arc::new(Self {
            index: format!("{before}{base_tag}{after}").into(),
            tag: HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"index\"")),
        })
    }

    /// The answer to a request that is for the console.
    pub(crate) fn answer(&self, request: &Request) -> Option<Response> {
        let headers = request.headers();
        Some(match wanted(request.method(), request.uri().path(), headers)? {
            Part::Index => {
                let tag = self.tag.clone();
                respond(headers, "text/html; charset=utf-8", tag, "no-cache", self.index.clone(), None)
            }
            Part::File(file) => {
                let lasts = if file.path.starts_with(HASHED) {
                    "public, max-age=31536000, immutable"
                } else {
                    "no-cache"
                };
                let (tag, bytes) = (HeaderValue::from_static(file.tag), Bytes::from_static(file.bytes));
                respond(headers, file.kind, tag, lasts, bytes, file.gzip.map(Bytes::from_static))
            }
        })
    }
}

/// The requested part of the console.
enum Part {
    Index,
    File(&'static File),
}

/// Whether a request is for the console: one of its files, or a page that only it can show. Depends on the request
/// alone, so that every layer decides the same.
pub(crate) fn is_for(parts: (&Method, &Uri, &HeaderMap)) -> bool {
    let (method, uri, headers) = parts;
    wanted(method, uri.path(), headers).is_some()
}

fn wanted(method: &Method, path: &str, headers: &HeaderMap) -> Option<Part> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let name = path.strip_prefix('/')?;
    if name.is_empty() || name == INDEX {
        return Some(Part::Index);
    }
    if let Some(file) = FILES.iter().find(|file| file.path == name) {
        return Some(Part::File(file));
    }
    // A person's address bar requests pages; scripts, styles, programs and probes do not.
    let page = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|kinds| kinds.to_str().is_ok_and(|kinds| kinds.to_ascii_lowercase().contains("text/html")));
    let taken = rest::is_api(path) || methods::access(method, path).is_some() || methods::is_service(path);
    (page && !taken).then_some(Part::Index)
}

fn respond(
    asked: &HeaderMap,
    kind: &'static str,
    tag: HeaderValue,
    lasts: &'static str,
    bytes: Bytes,
    gzip: Option<Bytes>,
) -> Response {
    let tag = tag.to_str().unwrap_or_default();
    let same = asked.get_all(header::IF_NONE_MATCH).iter().any(|tags| {
        let given = tags.to_str().unwrap_or_default().split(',');
        given.map(|given| given.trim().trim_start_matches("W/")).any(|given| given == "*" || given == tag)
    });
    let packed = gzip.filter(|_| takes_gzip(asked));
    let mut response = Response::new(Body::empty());
    secure(response.headers_mut(), POLICY);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(lasts));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    // Both encodings have the same tag: it is weak, since their bytes differ.
    if let Ok(weak) = HeaderValue::from_str(&format!("W/{tag}")) {
        headers.insert(header::ETAG, weak);
    }
    if same {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    if packed.is_some() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    *response.body_mut() = Body::from(packed.unwrap_or(bytes));
    response
}

/// Whether gzip is accepted, with a weight above zero.
fn takes_gzip(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
            let none =
                weight.trim().strip_prefix("q=").and_then(|q| q.trim().parse::<f32>().ok()) == Some(0.0);
            name.trim().eq_ignore_ascii_case("gzip") && !none
        })
    })
}

/// The headers of every page that a browser shows.
pub(crate) fn secure(headers: &mut HeaderMap, policy: &'static str) {
    let all: [(HeaderName, &'static str); 6] = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    headers.extend(all.map(|(name, value)| (name, HeaderValue::from_static(value))));
}

/// Removes the base path from a request's path, if it has it: some proxies do so and some do not. Runs in front of the
/// router.
pub(crate) fn without_base(base: &str, request: Request) -> Request {
    let (mut parts, body) = request.into_parts();
    if let Some(uri) = shortened(base, &parts) {
        parts.uri = uri;
    }
    Request::from_parts(parts, body)
}

fn shortened(base: &str, parts: &Parts) -> Option<Uri> {
    let rest = parts.uri.path().strip_prefix(base)?;
    let path = match (rest.is_empty(), rest.starts_with('/')) {
        (true, _) => "/",
        (_, true) => rest,
        _ => return None,
    };
    let whole = match parts.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut uri = parts.uri.clone().into_parts();
    uri.path_and_query = Some(whole.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(uri).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str, accept: &'static str) -> Request {
        let request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
        request.body(Body::empty()).unwrap()
    }

    fn code(console: &Console, request: &Request) -> Option<u16> {
        console.answer(request).map(|response| response.status().as_u16())
    }

    #[test]
    fn what_a_browser_opens_is_the_console_unless_something_else_is_there() {
        let console = Console::new("");
        for path in ["/", "/jobs", "/jobs/a.b/items/3", "/jobs/%E6%97%A5", "/metrics/", "/apis"] {
            assert_eq!(code(&console, &asked("GET", path, "text/html,*/*;q=0.8")), Some(200), "{path}");
        }
        for path in [
            "/api",
            "/api/nosuch",
            "/metrics",
            "/healthz",
            "/plain",
            "/rosterd.v1.AdminService/ListJobs",
            "/rosterd.v1.AdminService/NoSuch",
            "/grpc.health.v1.Health/Check",
        ] {
            assert_eq!(code(&console, &asked("GET", path, "text/html")), None, "{path}");
        }
        assert_eq!(code(&console, &asked("GET", "/jobs", "*/*")), None, "a program's request");
        assert_eq!(code(&console, &asked("GET", "/assets/gone-1a2b.js", "*/*")), None);
        assert_eq!(code(&console, &asked("POST", "/jobs", "text/html")), None);
        assert_eq!(code(&console, &asked("HEAD", "/", "*/*")), Some(200));
    }

    #[test]
    fn a_base_is_taken_off_as_a_whole_or_not_at_all() {
        let path = |text: &str| without_base("/x", asked("GET", text, "*/*")).uri().to_string();
        assert_eq!(path("/x/api/jobs?limit=1"), "/api/jobs?limit=1");
        assert_eq!((path("/x"), path("/x/")), ("/".to_owned(), "/".to_owned()));
        assert_eq!((path("/xy"), path("/api/jobs")), ("/xy".to_owned(), "/api/jobs".to_owned()));
        assert_eq!(path("http://a:1/x/api"), "http://a:1/api");
    }

    #[test]
    fn a_weight_of_nothing_declines_gzip() {
        let takes = |value: &'static str| {
            takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]))
        };
        assert!(takes("gzip, deflate, br") && takes("br;q=1.0, GZIP;q=0.8") && takes("gzip; q=1"));
        assert!(
            !takes("br") && !takes("gzip;q=0") && !takes("gzip; q=0.0, br") && !takes_gzip(&HeaderMap::new())
        );
    }

    #[test]
    fn the_policy_lets_nothing_in_that_did_not_come_with_the_page() {
        assert!(POLICY.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
        assert!(
            !POLICY.contains("unsafe") && !POLICY.contains('*') && POLICY.contains("frame-ancestors 'none'")
        );
    }

    /// Violations of the policy would only be seen in a browser.
    #[test]
    fn the_built_page_keeps_to_the_policy_and_to_relative_addresses() {
        let html = String::from_utf8(Console::new("/x").index.to_vec()).unwrap();
        assert_eq!(html.matches("<base ").count(), 1, "the server sets the base");
        let head = html.find("<base href=\"/x/\">").unwrap();
        for written in ["src=\"", "href=\""] {
            for (at, _) in html.match_indices(written).filter(|(at, _)| *at > head + 20) {
                let address = &html[at + written.len()..];
                assert!(!address.starts_with('/') && !address.starts_with("http"), "{}", &address[..40]);
            }
        }
        assert!(!html.contains("<style") && !html.contains(" style=\"") && !html.contains(" onload="));
        let scripts = html.match_indices("<script").map(|(at, _)| &html[at..]);
        for script in scripts {
            assert!(script.split('>').next().unwrap().contains(" src="), "a script within the page");
        }
    }
}
