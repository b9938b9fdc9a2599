//! The console's files over raw HTTP/1: to whom they are served, under which paths, with which headers.

use rosterd_api::access::Credentials;

use crate::auth::{grants, secret};
use crate::http::{self, Answered};
use crate::support::{Served, config, serve, soon};

async fn get(served: &Served, path: &str, heads: &str) -> Answered {
    soon("an answer", http::ask(served.address, "GET", path, heads, "")).await
}

const PAGE: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

/// The addresses from which the page loads, as written.
fn loaded(html: &str) -> Vec<String> {
    let written = [" src=\"", " href=\""]
        .into_iter()
        .flat_map(|name| html.match_indices(name).map(|(at, name)| at + name.len()));
    let addresses =
        written.map(|at| html[at..].split('"').next().unwrap().trim_start_matches("./").to_owned());
    addresses.filter(|address| address.starts_with("assets/")).collect()
}

#[tokio::test]
async fn the_console_is_open_and_what_it_shows_is_not() {
    let mut config = config();
    config.credentials = Credentials::new(grants());
    let served = serve(config).await;
    let page = get(&served, "/", "").await;
    assert_eq!((page.code, page.head("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.head("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.head("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.head("referrer-policy"), Some("no-referrer"));
    let files = loaded(&page.body);
    assert!(!files.is_empty(), "{}", page.body);
    for file in files {
        let answer = get(&served, &format!("/{file}"), "").await;
        assert_eq!(answer.code, 200, "{file}");
        assert_eq!(answer.head("cache-control"), Some("public, max-age=31536000, immutable"), "{file}");
    }
    assert_eq!(get(&served, "/api/jobs", PAGE).await.code, 401);
    assert_eq!(get(&served, "/plain", PAGE).await.code, 401);
}

#[tokio::test]
async fn a_deep_link_opens_the_console_and_a_missing_file_does_not() {
    let served = serve(config()).await;
    let index = get(&served, "/", PAGE).await.body;
    for path in ["/jobs/nightly", "/jobs/a.b/items/3?tab=runs", "/somewhere"] {
        let answer = get(&served, path, PAGE).await;
        assert_eq!((answer.code, &answer.body), (200, &index), "{path}");
    }
    assert_eq!(get(&served, "/assets/gone.js", "Accept: */*\r\n").await.code, 404);
    assert_eq!(get(&served, "/api/nosuch", PAGE).await.code, 404);
    assert_eq!(get(&served, "/rosterd.v1.AdminService/ListJobs", PAGE).await.code, 404);
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again() {
    let served = serve(config()).await;
    let first = get(&served, "/", "").await;
    assert_eq!(first.head("cache-control"), Some("no-cache"));
    let tag = first.head("etag").unwrap().to_owned();
    let again = get(&served, "/", &format!("If-None-Match: \"other\", {tag}\r\n")).await;
    assert_eq!((again.code, again.body.as_str(), again.head("etag")), (304, "", Some(tag.as_str())));
    assert_eq!(get(&served, "/", "If-None-Match: \"other\"\r\n").await.code, 200);
}

/// A proxy may strip the prefix, or not: everything works both ways, and the page's addresses begin with the prefix.
#[tokio::test]
async fn behind_a_prefix_everything_is_below_it() {
    let mut config = config();
    config.base_path = "/tools/rosterd".into();
    config.credentials = Credentials::new(grants());
    let served = serve(config).await;
    for path in ["/tools/rosterd", "/tools/rosterd/", "/tools/rosterd/jobs/a", "/", "/jobs/a"] {
        let answer = get(&served, path, PAGE).await;
        assert_eq!(answer.code, 200, "{path}");
        assert!(answer.body.contains("<head><base href=\"/tools/rosterd/\">"), "{path}: {}", answer.body);
    }
    let viewer = format!("Authorization: Bearer {}\r\n", secret(2).text());
    for path in ["/tools/rosterd/api/jobs", "/api/jobs", "/tools/rosterd/metrics"] {
        assert_eq!(get(&served, path, &viewer).await.code, 200, "{path}");
        assert_eq!(get(&served, path, "").await.code, 401, "{path}: the prefix leads around no right");
    }
    for file in loaded(&get(&served, "/", PAGE).await.body) {
        assert_eq!(get(&served, &format!("/tools/rosterd/{file}"), "").await.code, 200, "{file}");
    }
    assert_eq!(get(&served, "/tools/rosterdx", "").await.code, 401);
}

/// Clients without a credential do not take the places of others, however many files they request.
#[tokio::test]
async fn the_consoles_files_take_no_place_of_requests() {
    let mut config = config();
    config.calls = 0;
    let served = serve(config).await;
    assert_eq!(get(&served, "/", "").await.code, 200);
    assert_eq!(get(&served, "/api/session", "").await.code, 200);
    assert_eq!(get(&served, "/api/jobs", "").await.code, 429);
}

#[tokio::test]
async fn files_come_gzipped_to_clients_that_accept_it() {
    use std::io::Read as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let served = serve(config()).await;
    let page = get(&served, "/", "").await.body;
    let file = loaded(&page).into_iter().find(|file| file.ends_with(".css")).expect("the page has a style");
    let plain = get(&served, &format!("/{file}"), "").await;
    assert_eq!((plain.head("content-encoding"), plain.head("vary")), (None, Some("accept-encoding")));
    let mut stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let request =
        format!("GET /{file} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept-Encoding: br, gzip\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    soon("an answer", stream.read_to_end(&mut answer)).await.unwrap();
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let heads = String::from_utf8_lossy(&answer[..at]).to_lowercase();
    assert!(heads.contains("content-encoding: gzip"), "{heads}");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&answer[at + 4..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, plain.body);
}
