//! Against a server that keeps what it is told.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::*;

/// What a server offers, and which line it refuses.
#[derive(Clone, Copy)]
struct Manner {
    offers: &'static [&'static str],
    refuses: &'static str,
}

const OPEN: Manner = Manner { offers: &["SIZE 1000000"], refuses: "-" };

/// Reads one line.
async fn heard(stream: &mut BufReader<impl AsyncRead + Unpin>, told: &mut Vec<String>) -> Option<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
    told.push(line.trim_end().to_owned());
    told.last().cloned()
}

/// Speaks SMTP until the client leaves or wants TLS; whether it wants that.
async fn speak(
    stream: &mut BufReader<impl AsyncRead + AsyncWrite + Unpin>,
    manner: Manner,
    told: &mut Vec<String>,
) -> bool {
    let mut answer_next: Option<&str> = None;
    loop {
        let Some(line) = heard(stream, told).await else { return false };
        let offers: String = manner.offers.iter().map(|offer| format!("250-{offer}\r\n")).collect();
        let answer = match line.split([' ', ':']).next().unwrap_or_default() {
            _ if line.starts_with(manner.refuses) => "550 not here\r\n".to_owned(),
            _ if answer_next.is_some() => answer_next.take().unwrap().to_owned(),
            "EHLO" => format!("250-hello\r\n{offers}250 HELP\r\n"),
            "STARTTLS" => {
                stream.write_all(b"220 go on\r\n").await.unwrap();
                return true;
            }
            "AUTH" if line == "AUTH LOGIN" => {
                stream.write_all(b"334 VXNlcm5hbWU6\r\n").await.unwrap();
                answer_next = Some("235 welcome\r\n");
                heard(stream, told).await.unwrap();
                "334 UGFzc3dvcmQ6\r\n".to_owned()
            }
            "AUTH" => "235 welcome\r\n".to_owned(),
            "DATA" => {
                stream.write_all(b"354 go on\r\n").await.unwrap();
                while heard(stream, told).await.unwrap() != "." {}
                "250 taken\r\n".to_owned()
            }
            "QUIT" => "221 bye\r\n".to_owned(),
            _ => "250 fine\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

struct Tls {
    acceptor: TlsAcceptor,
    pem: String,
}

fn tls() -> Tls {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    Tls { acceptor: TlsAcceptor::from(Arc::new(config)), pem: cert.pem() }
}

/// Sends a mail to a server of this manner; what became of it, and what the server was told, `(TLS)` where that began.
async fn mail(
    manner: Manner,
    secured: Secured,
    login: Option<(&str, &str)>,
    envelope: &Envelope,
    message: &str,
) -> (Result<(), OutboundError>, Vec<String>) {
    let tls = tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = async {
        let mut told = Vec::new();
        let mut stream = listener.accept().await.unwrap().0;
        if secured != Secured::Tls {
            stream.write_all(b"220-hello\r\n220 there\r\n").await.unwrap();
            let mut plain = BufReader::new(stream);
            if !speak(&mut plain, manner, &mut told).await {
                return told;
            }
            stream = plain.into_inner();
        }
        let Ok(stream) = tls.acceptor.accept(stream).await else { return told };
        told.push("(TLS)".to_owned());
        let mut stream = BufReader::new(stream);
        if secured == Secured::Tls {
            stream.write_all(b"220 there\r\n").await.unwrap();
        }
        speak(&mut stream, manner, &mut told).await;
        told
    };
    let client = Client::new(Trust::Pem(tls.pem.as_bytes()), Limits::default()).unwrap();
    let login = login.map(|(user, password)| (user.to_owned(), password.to_owned()));
    let server = Server { host: "localhost".into(), port, secured, login };
    let send = async { client.send(&server, envelope, message).await };
    tokio::join!(send, serve)
}

fn envelope(to: &[&str]) -> Envelope {
    Envelope { from: "a@example.org".into(), to: to.iter().map(|to| (*to).to_owned()).collect() }
}

const MESSAGE: &str = "Subject: s\r\n\r\n.dot\r\nlast\r\n";

#[tokio::test]
async fn a_mail_is_handed_over_to_all_and_its_dots_are_kept_apart() {
    let (sent, told) = mail(OPEN, Secured::Not, None, &envelope(&["b@x", "c@y"]), MESSAGE).await;
    sent.unwrap();
    let wanted = [
        "EHLO [127.0.0.1]",
        "MAIL FROM:<a@example.org>",
        "RCPT TO:<b@x>",
        "RCPT TO:<c@y>",
        "DATA",
        "Subject: s",
        "",
        "..dot",
        "last",
        ".",
        "QUIT",
    ];
    assert_eq!(told, wanted);
}

#[tokio::test]
async fn a_login_is_said_only_in_tls_where_tls_is_wanted() {
    const STARTTLS: Manner = Manner { offers: &["STARTTLS", "AUTH LOGIN PLAIN"], refuses: "-" };
    let login = Some(("ann", "secret"));
    let (sent, told) = mail(STARTTLS, Secured::StartTls, login, &envelope(&["b@x"]), MESSAGE).await;
    sent.unwrap();
    assert_eq!(told[..4], ["EHLO [127.0.0.1]", "STARTTLS", "(TLS)", "EHLO [127.0.0.1]"]);
    assert_eq!(told[4], format!("AUTH PLAIN {}", STANDARD.encode("\0ann\0secret")));
    // A server, or somebody between, that offers none gets nothing.
    let without = Manner { offers: &["AUTH PLAIN"], refuses: "-" };
    let (sent, told) = mail(without, Secured::StartTls, login, &envelope(&["b@x"]), MESSAGE).await;
    assert!(sent.unwrap_err().to_string().contains("it offers no STARTTLS"));
    assert_eq!(told, ["EHLO [127.0.0.1]"]);
}

#[tokio::test]
async fn tls_from_the_beginning_and_the_older_way_of_a_login_do() {
    let older = Manner { offers: &["AUTH LOGIN"], refuses: "-" };
    let (sent, told) = mail(older, Secured::Tls, Some(("ann", "secret")), &envelope(&["b@x"]), MESSAGE).await;
    sent.unwrap();
    assert_eq!(told[..3], ["(TLS)", "EHLO [127.0.0.1]", "AUTH LOGIN"]);
    assert_eq!(told[3..5], [STANDARD.encode("ann"), STANDARD.encode("secret")]);
}

#[tokio::test]
async fn what_is_refused_is_an_error_with_the_servers_words_and_without_ours() {
    for (refuses, offers) in
        [("RCPT TO:<c", &["AUTH PLAIN"][..]), ("AUTH", &["AUTH PLAIN"]), ("MAIL", &["AUTH PLAIN"])]
    {
        let manner = Manner { offers, refuses };
        let login = Some(("ann", "secret"));
        let (sent, told) = mail(manner, Secured::Not, login, &envelope(&["b@x", "c@y"]), MESSAGE).await;
        let why = sent.unwrap_err().to_string();
        assert!(why.contains("it said 550 not here"), "{why}");
        assert!(!why.contains("secret") && !why.contains(&STANDARD.encode("\0ann\0secret")), "{why}");
        assert!(
            !told.contains(&"DATA".to_owned()),
            "no message is sent to a part of the recipients: {told:?}"
        );
    }
}

#[tokio::test]
async fn an_address_with_a_line_end_says_nothing_of_its_own() {
    let bad = envelope(&["b@x>\r\nRCPT TO:<evil@y"]);
    let (sent, told) = mail(OPEN, Secured::Not, None, &bad, MESSAGE).await;
    assert!(sent.is_err());
    assert!(!told.iter().any(|line| line.contains("evil")), "{told:?}");
}
