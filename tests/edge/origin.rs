//! A coordinator without credentials must not obey web pages in a person's browser.

use std::net::SocketAddr;

use bytes::Bytes;
use rosterd_api::access::Credentials;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::auth::{grants, secret};
use crate::support::{Served, config, serve, soon};

const LIST: &str = "/rosterd.v1.AdminService/ListJobs";
/// An empty message of gRPC.
const EMPTY: &[u8] = &[0, 0, 0, 0, 0];

async fn on_loopback() -> Served {
    let mut config = config();
    config.loopback = true;
    serve(config).await
}

/// The answer to a request over HTTP/1.1.
async fn http1(address: SocketAddr, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{head}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    soon("an answer", stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// The status of a call over HTTP/2.
async fn call(address: SocketAddr, authority: &str, heads: &[(&str, &str)]) -> String {
    let io = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut request = http::Request::post(format!("http://{authority}{LIST}"));
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")].iter().chain(heads) {
        request = request.header(*name, *value);
    }
    let (answer, mut body) = client.clone().send_request(request.body(()).unwrap(), false).unwrap();
    body.send_data(Bytes::from_static(EMPTY), true).unwrap();
    let head = soon("the head", answer).await.unwrap();
    if let Some(status) = head.headers().get("grpc-status") {
        return status.to_str().unwrap().to_owned();
    }
    let mut body = head.into_body();
    while let Some(data) = soon("the body", body.data()).await {
        let length = data.unwrap().len();
        body.flow_control().release_capacity(length).unwrap();
    }
    let trailers = soon("the trailers", body.trailers()).await.unwrap().unwrap();
    trailers["grpc-status"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn grpc_is_not_spoken_over_http_1() {
    let served = serve(config()).await;
    for kind in ["application/grpc", "application/grpc+proto", "application/grpc-web"] {
        let head =
            format!("POST {LIST} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nTE: trailers\r\n");
        let (code, answer) = http1(served.address, &head, EMPTY).await;
        assert_eq!(code, 400, "{answer}");
        assert!(answer.contains("gRPC is spoken over HTTP/2 here, and this is HTTP/1.1"), "{answer}");
    }
    assert_eq!(call(served.address, "localhost", &[]).await, "0");
}

#[tokio::test]
async fn a_web_page_under_another_name_reaches_nothing_on_loopback() {
    let served = on_loopback().await;
    let port = served.address.port();
    for host in
        ["localhost".to_owned(), format!("localhost:{port}"), format!("127.0.0.1:{port}"), "[::1]:1".into()]
    {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n");
        assert_eq!(http1(served.address, &head, b"").await.0, 200, "{host}");
        assert_eq!(call(served.address, &host, &[]).await, "0", "{host}");
    }
    for host in [format!("rebound.example:{port}"), "10.0.0.1".into(), "localhost.rebound.example".into()] {
        for path in ["/", "/metrics", "/healthz"] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n");
            let (code, answer) = http1(served.address, &head, b"").await;
            assert_eq!(code, 403, "{host}{path}");
            assert!(
                answer.contains("ORIGIN_REFUSED") && answer.contains("start it with credentials"),
                "{answer}"
            );
        }
        assert_eq!(call(served.address, &host, &[]).await, "7", "PERMISSION_DENIED: {host}");
    }
    let absolute = "GET http://rebound.example/ HTTP/1.1\r\nHost: localhost\r\n";
    assert_eq!(http1(served.address, absolute, b"").await.0, 403);
    assert_eq!(call(served.address, "localhost", &[("host", "rebound.example")]).await, "7");
}

#[tokio::test]
async fn names_are_not_asked_for_where_there_are_credentials() {
    let mut config = config();
    config.loopback = true;
    config.credentials = Credentials::new(grants());
    let served = serve(config).await;
    let bearer = format!("Bearer {}", secret(4).text());
    assert_eq!(call(served.address, "rosterd.example", &[("authorization", &bearer)]).await, "0");
    assert_eq!(call(served.address, "rosterd.example", &[]).await, "16", "UNAUTHENTICATED");
}

#[tokio::test]
async fn grpc_from_a_web_page_is_refused() {
    let served = serve(config()).await;
    for heads in [
        [("origin", "https://page.example")],
        [("origin", "null")],
        [("origin", "http://localhost:7700")],
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site")],
    ] {
        assert_eq!(call(served.address, "localhost", &heads).await, "7", "{heads:?}");
    }
    for heads in [[("sec-fetch-site", "none")], [("sec-fetch-site", "same-origin")]] {
        assert_eq!(call(served.address, "localhost", &heads).await, "0", "{heads:?}");
    }
    let page = "GET / HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: cross-site\r\n";
    assert_eq!(http1(served.address, page, b"").await.0, 200, "a page may be linked to");
}
