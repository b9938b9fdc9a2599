//! Raw HTTP/1: one request per connection.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) code: u16,
    pub(crate) heads: String,
    pub(crate) body: String,
}

impl Answered {
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The value of a header.
    pub(crate) fn head(&self, name: &str) -> Option<&str> {
        let mut lines = self.heads.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(head, _)| head.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// `heads`: whole lines, each with its end.
pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, heads: &str, body: &str) -> Answered {
    ask_as(address, method, path, &format!("Host: localhost\r\n{heads}"), body).await
}

/// The same, with the host among the headers.
pub(crate) async fn ask_as(
    address: SocketAddr,
    method: &str,
    path: &str,
    heads: &str,
    body: &str,
) -> Answered {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{heads}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (heads, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    let code = heads.split(' ').nth(1).unwrap().parse().unwrap();
    Answered { code, heads: heads.to_owned(), body: body.to_owned() }
}
