//! The HTTP side, over raw HTTP/1.

use std::net::SocketAddr;

use rosterd_coordinator::handle::Health;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{JobScope, config, instance, job, serve, soon};

/// Status, headers and body of a GET.
pub(crate) async fn get_with(address: SocketAddr, path: &str, heads: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{heads}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer)).await.unwrap();
    let (heads, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    let code = heads.split(' ').nth(1).unwrap().parse().unwrap();
    (code, heads.to_ascii_lowercase(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    get_with(address, path, "").await
}

#[tokio::test]
async fn the_page_shows_hostile_names_as_text() {
    const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";
    let served = serve(config()).await;
    let mut row = job("nightly");
    row.description = HOSTILE.into();
    row.time_zone = HOSTILE.into();
    served.fake.jobs.lock().unwrap().1 = vec![row];
    *served.fake.instances.lock().unwrap() = vec![instance(HOSTILE)];
    let (code, heads, body) = get(served.address, "/plain").await;
    assert_eq!(code, 200);
    assert!(body.contains("nightly") && body.contains("&lt;img src=x onerror=alert(1)&gt;"), "{body}");
    assert!(!body.contains("<img") && !body.contains("<script"));
    assert!(heads.contains("content-security-policy: default-src 'none'; style-src 'sha256-"), "{heads}");
    assert!(heads.contains("x-content-type-options: nosniff"));
}

#[tokio::test]
async fn a_probe_is_told_whether_work_may_be_sent_here() {
    let served = serve(config()).await;
    assert_eq!(get(served.address, "/healthz").await.0, 200);
    for health in [Health::Starting, Health::Suspended, Health::Draining] {
        served.fake.health.send_replace(health);
        assert_eq!(get(served.address, "/healthz").await.0, 503, "{health:?}");
    }
}

#[tokio::test]
async fn what_is_not_a_page_is_not_found() {
    let served = serve(config()).await;
    for path in ["/x", "//", "/metrics/", "/Metrics", "/rosterd.v1.AdminService/ListJobs", "/healthz/.."] {
        assert_eq!(get(served.address, path).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn requests_are_counted_by_a_closed_set_of_names() {
    let served = serve(config()).await;
    get(served.address, "/healthz").await;
    get(served.address, "/some/hostile/path").await;
    let (code, heads, body) = get(served.address, "/metrics").await;
    assert_eq!(code, 200);
    assert!(heads.contains("content-type: text/plain; version=0.0.4"), "{heads}");
    assert!(body.contains("rosterd_requests_total{method=\"/healthz\",status=\"200\"} 1"), "{body}");
    assert!(body.contains("rosterd_requests_total{method=\"other\",status=\"404\"} 1"), "{body}");
    assert!(!body.contains("hostile"));
}

#[tokio::test]
async fn metrics_are_openmetrics_to_clients_that_accept_it_and_the_older_text_to_others() {
    let served = serve(config()).await;
    let prometheus =
        "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2\r\n";
    let (code, heads, body) = get_with(served.address, "/metrics", prometheus).await;
    assert_eq!(code, 200);
    assert!(heads.contains("content-type: application/openmetrics-text; version=1.0.0"), "{heads}");
    assert!(heads.contains("vary: accept"), "{heads}");
    assert!(body.contains("# TYPE rosterd_panics counter\n") && body.ends_with("# EOF\n"), "{body}");
    for accept in ["", "Accept: */*\r\n", "Accept: text/html\r\n"] {
        let (_, heads, body) = get_with(served.address, "/metrics", accept).await;
        assert!(heads.contains("content-type: text/plain; version=0.0.4"), "{heads}");
        assert!(body.contains("# TYPE rosterd_panics_total counter\n") && !body.contains("# EOF"), "{body}");
    }
}

#[tokio::test]
async fn a_panic_is_an_answer_and_is_counted() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().0 = JobScope::Panics;
    assert_eq!(get(served.address, "/plain").await.0, 500);
    assert_eq!(served.metrics.handler_panics.get(), 1);
    assert_eq!(get(served.address, "/healthz").await.0, 200);
}
