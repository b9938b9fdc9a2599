//! Against small servers that say what a test wants.

use std::future::Future;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::*;

const SOON: Limits =
    Limits { connect: Duration::from_secs(20), exchange: Duration::from_millis(300), max_body: 1000 };

fn pair() -> CertifiedKey<rcgen::KeyPair> {
    generate_simple_self_signed(vec!["localhost".into()]).unwrap()
}

fn client(limits: Limits) -> Client {
    Client::new(Trust::Pem(pair().cert.pem().as_bytes()), limits).unwrap()
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Reads a request and answers it; what was read.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> String {
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&read).contains("\r\n\r\nbody") {
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the request ends too early: {:?}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&buffer[..count]);
    }
    // The client may hang up in the middle of an answer that it does not take.
    let _gone = stream.write_all(answer.as_bytes()).await;
    let _gone = stream.flush().await;
    String::from_utf8(read).unwrap()
}

async fn ask(
    client: &Client,
    url: &str,
    server: impl Future<Output = String>,
) -> (Result<Response<Bytes>, OutboundError>, String) {
    let request = Request::post(url).header("content-type", "text/plain").body(Bytes::from("body")).unwrap();
    tokio::join!(client.send(request), server)
}

#[tokio::test]
async fn a_request_is_sent_whole_and_its_answer_read() {
    let (listener, port) = listen().await;
    let answer = "HTTP/1.1 201 Created\r\nx-said: yes\r\ncontent-length: 4\r\n\r\ngood";
    let server = async { serve(listener.accept().await.unwrap().0, answer).await };
    let (got, sent) = ask(&client(SOON), &format!("http://127.0.0.1:{port}/a/b?c=d"), server).await;
    let got = got.unwrap();
    assert_eq!((got.status().as_u16(), got.headers()["x-said"].as_bytes()), (201, &b"yes"[..]));
    assert_eq!(got.body(), "good");
    assert!(sent.starts_with("POST /a/b?c=d HTTP/1.1\r\n"), "{sent}");
    for line in [&format!("host: 127.0.0.1:{port}"), "content-length: 4", "content-type: text/plain"] {
        assert!(sent.contains(line), "{line}: {sent}");
    }
    assert!(sent.contains("user-agent: rosterd/"), "{sent}");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (listener, port) = listen().await;
    let answer = "HTTP/1.1 307 T\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let server = async { serve(listener.accept().await.unwrap().0, answer).await };
    let (got, _) = ask(&client(SOON), &format!("http://127.0.0.1:{port}/"), server).await;
    assert_eq!(got.unwrap().status().as_u16(), 307);
}

#[tokio::test]
async fn what_is_too_long_or_too_late_or_broken_is_an_error_without_the_path() {
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n{}", "x".repeat(1001));
    for (answer, wanted) in [
        (long.as_str(), "is longer than 1000 bytes"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", "did not answer within 300ms"),
        ("nothing of HTTP\r\n\r\n", "gave no answer that can be read"),
    ] {
        let (listener, port) = listen().await;
        let server = async {
            let mut stream = listener.accept().await.unwrap().0;
            serve(&mut stream, answer).await;
            // Held open until the client has given up.
            let mut rest = Vec::new();
            let _reset = stream.read_to_end(&mut rest).await;
            String::new()
        };
        let (got, _) =
            ask(&client(SOON), &format!("http://127.0.0.1:{port}/secret?key=secret"), server).await;
        let told = got.unwrap_err().to_string();
        assert!(told.contains(wanted) && told.contains(&format!("127.0.0.1:{port}")), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
}

#[tokio::test]
async fn a_server_that_closes_after_its_answer_has_answered() {
    let (listener, port) = listen().await;
    let server = async {
        let stream = listener.accept().await.unwrap().0;
        serve(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nall of it").await
    };
    let (got, _) = ask(&client(SOON), &format!("http://127.0.0.1:{port}/"), server).await;
    assert_eq!(got.unwrap().body(), "all of it");
}

#[tokio::test]
async fn a_server_is_believed_by_the_authorities_that_were_named() {
    let CertifiedKey { cert, signing_key } = pair();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    for believed in [true, false] {
        let (listener, port) = listen().await;
        let server = async {
            match acceptor.accept(listener.accept().await.unwrap().0).await {
                Ok(stream) => serve(stream, "HTTP/1.1 204 N\r\n\r\n").await,
                Err(_) => String::new(),
            }
        };
        let client = if believed {
            Client::new(Trust::Pem(cert.pem().as_bytes()), SOON).unwrap()
        } else {
            client(SOON)
        };
        let (got, _) = ask(&client, &format!("https://localhost:{port}/"), server).await;
        match got {
            Ok(got) => assert!(believed && got.status().as_u16() == 204),
            Err(error) => {
                assert!(!believed && error.to_string().starts_with("no TLS with localhost"), "{error}")
            }
        }
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_asked_is_refused() {
    let client = client(SOON);
    for (url, wanted) in [
        ("ftp://a/", "neither https nor http"),
        ("/path", "neither https nor http"),
        ("https://user:secret@a/", "it holds a user"),
    ] {
        let request = Request::get(url).body(Bytes::new()).unwrap();
        let told = client.send(request).await.unwrap_err().to_string();
        assert!(told.contains(wanted) && !told.contains("secret"), "{told}");
    }
}

#[test]
fn authorities_that_cannot_be_read_are_refused() {
    for bad in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert!(Client::new(Trust::Pem(bad.as_bytes()), Limits::default()).is_err(), "{bad:?}");
    }
}
