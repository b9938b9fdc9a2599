//! Asks each server why there is no session: the client library says only that there is none.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::options::Servers;

/// How long to wait for one server.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much of an answer is read.
const MAX_ANSWER: u64 = 4 << 10;

/// What each server says, in one line.
pub(super) async fn reasons(servers: &Servers, secure: bool) -> String {
    let asked = servers.each().map(|server| async move {
        let reason = tokio::time::timeout(PATIENCE, ask(server, secure)).await;
        let reason = reason.unwrap_or_else(|_| "silent".to_owned());
        format!("{server} {reason}")
    });
    join_all(asked).await.join("; ")
}

async fn ask(server: &str, secure: bool) -> String {
    let mut stream = match TcpStream::connect(server).await {
        Ok(stream) => stream,
        Err(error) => return format!("cannot be reached ({error})"),
    };
    if secure {
        return "can be reached, but gave no session: see that it speaks TLS there, and that its certificate \
                is one that ours believes and names this host"
            .into();
    }
    let mut answer = String::new();
    let asked = async {
        stream.write_all(b"srvr").await?;
        (&mut stream).take(MAX_ANSWER).read_to_string(&mut answer).await
    };
    match asked.await {
        Ok(_) => told(&answer),
        Err(error) => format!("closed the connection ({error})"),
    }
}

/// The reason, from the answer to `srvr`.
fn told(answer: &str) -> String {
    if answer.contains("not currently serving requests") {
        return "runs, but is in no majority of its ensemble".into();
    }
    let line = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match (line("Mode:"), line("Zookeeper version:")) {
        (Some("read-only"), _) => "serves only reads: it is cut off from the majority of its ensemble".into(),
        (Some(mode), Some(version)) => format!("runs ({mode}, version {version}), but gave no session"),
        _ if answer.is_empty() => "answers nothing: is it a ZooKeeper server?".into(),
        _ => "gave no session".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn what_a_server_says_is_told_in_words() {
        let srvr = "Zookeeper version: 3.9.5-1, built on x\nMode: follower\n";
        assert_eq!(told(srvr), "runs (follower, version 3.9.5-1, built on x), but gave no session");
        assert!(told("This ZooKeeper instance is not currently serving requests\n").contains("no majority"));
        assert!(told("Zookeeper version: 3\nMode: read-only\n").contains("only reads"));
        assert!(told("").contains("is it a ZooKeeper server?"));
    }
}
