//! Features of plain HTTP from tower-http: ids of requests, compression, bounds of size and time.

use std::io::Read as _;
use std::time::Duration;

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::{self, Answered};
use crate::support::{JobScope, Served, config, job, serve, soon};

async fn get(served: &Served, path: &str, heads: &str) -> Answered {
    soon("an answer", http::ask(served.address, "GET", path, heads, "")).await
}

/// Announces a body and sends none of it.
pub(crate) async fn announced(served: &Served, method: &str, path: &str, length: usize) -> Answered {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer)).await.unwrap();
    let (heads, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = heads.split(' ').nth(1).unwrap().parse().unwrap();
    Answered { code, heads: heads.to_owned(), body: body.to_owned() }
}

#[tokio::test]
async fn a_request_has_an_id_in_its_answer_and_in_the_problem() {
    let served = serve(config()).await;
    let given = get(&served, "/api/jobs/nosuch", "X-Request-Id: client-7/a\r\n").await;
    assert_eq!((given.code, given.head("x-request-id")), (404, Some("client-7/a")));
    assert_eq!(given.json()["requestId"], "client-7/a");
    let made = get(&served, "/api/jobs/nosuch", "").await;
    let (first, problem) = (made.head("x-request-id").unwrap().to_owned(), made.json());
    assert_eq!(problem["requestId"], first.as_str());
    let second = get(&served, "/healthz", "X-Request-Id: <img src=x>\r\n").await;
    let second = second.head("x-request-id").unwrap();
    assert!(second != first && second.split('-').next() == first.split('-').next(), "{first} {second}");
    // Refusals of layers before any handler have one, too.
    let foreign = "Origin: http://evil.example\r\nX-Request-Id: a\r\n";
    let refused =
        soon("an answer", http::ask(served.address, "POST", "/api/jobs/j/trigger", foreign, "")).await;
    assert_eq!((refused.code, refused.json()["requestId"].as_str()), (403, Some("a")));
}

#[tokio::test]
async fn what_a_handler_logs_names_the_request() {
    let (lines, _guard) = crate::log::Lines::listen();
    let served = serve(config()).await;
    let heads = "X-Request-Id: seven\r\n";
    soon("an answer", http::ask(served.address, "POST", "/api/jobs/j/trigger", heads, "")).await;
    let told = lines.with("audit action=trigger jobs=j principal=\"anonymous\" result=ok");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("id=\"seven\"") && told[0].contains("/api/jobs/{job}/trigger"), "{told:?}");
}

/// Headers in lower case, and the body as received.
async fn raw(served: &Served, path: &str, heads: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{heads}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    soon("an answer", stream.read_to_end(&mut answer)).await.unwrap();
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&answer[..at]).to_lowercase(), answer[at + 4..].to_vec())
}

#[tokio::test]
async fn long_answers_are_compressed_for_clients_that_accept_it_and_live_events_are_not() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().1 = (0..200).map(|number| job(&format!("job-{number}"))).collect();
    let (heads, plain) = raw(&served, "/api/jobs?limit=200", "").await;
    assert!(!heads.contains("content-encoding"), "{heads}");
    let (heads, packed) = raw(&served, "/api/jobs?limit=200", "Accept-Encoding: gzip\r\n").await;
    assert!(heads.contains("content-encoding: gzip") && heads.contains("vary: accept-encoding"), "{heads}");
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut text).unwrap();
    assert!(text == plain && packed.len() * 5 < plain.len(), "{} of {}", packed.len(), plain.len());
    let (heads, smaller) = raw(&served, "/api/jobs?limit=200", "Accept-Encoding: gzip, br\r\n").await;
    assert!(heads.contains("content-encoding: br") && smaller.len() * 5 < plain.len(), "{heads}");
    let (heads, _) = raw(&served, "/api/jobs/count", "Accept-Encoding: gzip, br\r\n").await;
    assert!(!heads.contains("content-encoding"), "a number is not worth it");
    let mut live = TcpStream::connect(served.address).await.unwrap();
    live.write_all(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip, br\r\n\r\n")
        .await
        .unwrap();
    let mut head = String::new();
    while !head.contains("\r\n\r\n") {
        let mut some = [0; 512];
        let count = soon("the head", live.read(&mut some)).await.unwrap();
        assert!(count > 0, "{head}");
        head.push_str(&String::from_utf8_lossy(&some[..count]));
    }
    assert!(
        head.contains("text/event-stream") && !head.to_lowercase().contains("content-encoding"),
        "{head}"
    );
}

#[tokio::test]
async fn what_rest_is_asked_is_answered_as_a_whole_by_threads_that_give_way() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().1 = (0..200).map(|number| job(&format!("job-{number}"))).collect();
    let asked_on = || served.fake.asked_on.lock().unwrap().take();
    let (heads, _) = raw(&served, "/api/jobs?limit=200", "Accept-Encoding: gzip\r\n").await;
    assert_eq!(asked_on().as_deref(), Some("aside"));
    assert!(heads.contains("content-length"), "it was compressed before it was sent: {heads}");
    let mut admin = AdminServiceClient::new(served.channel().await);
    admin.list_jobs(v1::ListJobsRequest::default()).await.unwrap();
    assert_ne!(asked_on().as_deref(), Some("aside"), "gRPC is answered where it comes in");
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused_before_it_is_read() {
    let mut config = config();
    config.max_receive = 1000;
    let served = serve(config).await;
    let refused = announced(&served, "PUT", "/api/jobs/config", 1001).await;
    assert_eq!(
        (refused.code, refused.json()["code"].as_str()),
        (413, Some("MESSAGE_TOO_LARGE")),
        "{}",
        refused.body
    );
    assert!(refused.json()["detail"].as_str().unwrap().contains("max_receive_bytes"));
    // A body without a length is read up to the limit.
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = "PUT /api/jobs/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(format!("{head}7d0\r\n{}\r\n0\r\n\r\n", " ".repeat(2000)).as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("MESSAGE_TOO_LARGE"), "{answer}");
}

#[tokio::test]
async fn a_request_that_takes_too_long_ends_and_says_so() {
    let mut config = config();
    config.call_deadline = Duration::from_millis(50);
    let served = serve(config).await;
    served.fake.jobs.lock().unwrap().0 = JobScope::Never;
    let late = get(&served, "/api/jobs", "").await;
    assert_eq!((late.code, late.json()["code"].as_str()), (504, Some("DEADLINE_EXCEEDED")), "{}", late.body);
    assert_eq!(late.head("content-type"), Some("application/problem+json"));
    assert_eq!(get(&served, "/plain", "").await.code, 504);
}

#[tokio::test]
async fn a_panic_is_a_problem_that_names_the_request() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().0 = JobScope::Panics;
    let broken = get(&served, "/api/jobs", "X-Request-Id: p\r\n").await;
    let problem = broken.json();
    assert_eq!(
        (broken.code, problem["code"].as_str(), problem["requestId"].as_str()),
        (500, Some("DEFECT"), Some("p"))
    );
}

#[tokio::test]
async fn what_a_library_refuses_is_a_problem_too() {
    let served = serve(config()).await;
    let answer = soon("an answer", async {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let head = "PUT /api/jobs/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n";
        stream.write_all(&[head.as_bytes(), b"\xff\xfe"].concat()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("application/problem+json"), "{answer}");
    assert!(answer.contains("REQUEST_INVALID"), "{answer}");
}
