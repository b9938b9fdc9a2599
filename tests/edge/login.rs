//! Logging in with a browser: a credential becomes a cookie, which is useless to other pages, to other programs, and
//! after its end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rosterd_api::access::session::{Audit, Options, Sessions};
use rosterd_api::access::{Credentials, Grant};
use rosterd_api::layers::methods::Role;
use rosterd_domain::time::Time;

use crate::auth::{grants, secret};
use crate::http::{self, Answered};
use crate::support::{Served, config, serve, soon};

type Rows = Arc<Mutex<Vec<(String, Option<String>)>>>;

struct Kept(Rows);

impl Audit for Kept {
    fn note(&self, _: Time, text: String, principal: Option<&str>) {
        self.0.lock().unwrap().push((text, principal.map(str::to_owned)));
    }
}

fn sessions(age: Duration, rows: &Rows) -> Arc<Sessions> {
    let audit = Box::new(Kept(rows.clone()));
    Arc::new(Sessions::new(Options {
        key: [7; 32],
        age,
        path: String::new(),
        secure: false,
        audit,
        callback: None,
    }))
}

async fn guarded() -> (Served, Arc<Credentials>, Rows) {
    let rows = Rows::default();
    let mut config = config();
    config.credentials = Credentials::new(grants());
    config.sessions = Some(sessions(Duration::from_secs(3600), &rows));
    let credentials = config.credentials.clone();
    (serve(config).await, credentials, rows)
}

async fn ask(served: &Served, method: &str, path: &str, heads: &str, body: &str) -> Answered {
    soon("an answer", http::ask(served.address, method, path, heads, body)).await
}

const JSON: &str = "Content-Type: application/json\r\n";

async fn log_in(served: &Served, text: &str) -> Answered {
    let body = serde_json::json!({ "credential": text }).to_string();
    ask(served, "POST", "/api/session", JSON, &body).await
}

/// The header that sends the session back, and the token that goes with changes.
fn cookie(answer: &Answered) -> (String, String) {
    let set = answer.head("set-cookie").unwrap();
    let pair = set.split(';').next().unwrap();
    (format!("Cookie: other=1; {pair}\r\n"), answer.json()["csrfToken"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_login_makes_a_session_with_the_rights_of_its_credential() {
    let (served, _, rows) = guarded().await;
    let before = ask(&served, "GET", "/api/session", "", "").await.json();
    assert_eq!(
        (before["authenticated"].as_bool(), before["loginRequired"].as_bool()),
        (Some(false), Some(true))
    );
    assert_eq!(
        (&before["principal"], before["logins"][0]["kind"].as_str()),
        (&serde_json::Value::Null, Some("credential"))
    );

    let answer = log_in(&served, secret(3).text()).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let set = answer.head("set-cookie").unwrap();
    assert!(set.contains("; Path=/; HttpOnly; SameSite=Strict; Max-Age=3600"), "{set}");
    assert!(!set.contains(&secret(3).text()[30..]), "the secret stays out of the cookie");
    let (session, token) = cookie(&answer);
    let view = ask(&served, "GET", "/api/session", &session, "").await.json();
    assert_eq!((view["principal"].as_str(), view["role"].as_str()), (Some("ops"), Some("operator")));
    assert_eq!((view["jobs"][0].as_str(), view["csrfToken"].as_str()), (Some("*"), Some(token.as_str())));

    let with_token = format!("{session}X-CSRF-Token: {token}\r\n");
    assert_eq!(ask(&served, "GET", "/api/jobs", &session, "").await.code, 200);
    assert_eq!(ask(&served, "POST", "/api/jobs/j/trigger", &with_token, "").await.code, 200);
    assert_eq!(ask(&served, "DELETE", "/api/jobs/config/j", &with_token, "").await.code, 403, "an admin's");
    let rows = rows.lock().unwrap().clone();
    assert_eq!(rows, [("log in to the console from 127.0.0.1: done".to_owned(), Some("ops".to_owned()))]);
}

#[tokio::test]
async fn a_change_without_the_sessions_token_is_refused() {
    let (served, ..) = guarded().await;
    let (session, token) = cookie(&log_in(&served, secret(3).text()).await);
    let (_, foreign) = cookie(&log_in(&served, secret(3).text()).await);
    for wrong in [String::new(), format!("X-CSRF-Token: {foreign}\r\n"), "X-CSRF-Token: \r\n".into()] {
        let answer = ask(&served, "POST", "/api/jobs/j/trigger", &format!("{session}{wrong}"), "").await;
        assert_eq!((answer.code, answer.json()["code"].as_str()), (403, Some("ORIGIN_REFUSED")), "{wrong}");
        assert!(answer.json()["detail"].as_str().unwrap().contains("x-csrf-token"), "{}", answer.body);
    }
    assert!(served.fake.operations.lock().unwrap().is_empty());
    // A program that shows its credential needs none, whatever cookie it has.
    let both = format!("{session}Authorization: Bearer {}\r\n", secret(3).text());
    assert_eq!(ask(&served, "POST", "/api/jobs/j/trigger", &both, "").await.code, 200);
    let from_elsewhere = format!("{session}X-CSRF-Token: {token}\r\nOrigin: http://evil.example\r\n");
    assert_eq!(ask(&served, "POST", "/api/jobs/j/trigger", &from_elsewhere, "").await.code, 403);
}

#[tokio::test]
async fn logging_out_ends_the_session_for_copies_of_its_cookie_too() {
    let (served, ..) = guarded().await;
    let (session, _) = cookie(&log_in(&served, secret(2).text()).await);
    let out = ask(&served, "DELETE", "/api/session", &session, "").await;
    assert_eq!(out.code, 204);
    assert!(
        out.head("set-cookie")
            .unwrap()
            .contains("rosterd_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
    );
    assert_eq!(ask(&served, "GET", "/api/jobs", &session, "").await.code, 401);
    assert_eq!(
        ask(&served, "DELETE", "/api/session", "", "").await.code,
        204,
        "without one there is nothing to end"
    );
}

#[tokio::test]
async fn a_revoked_credential_ends_its_sessions_and_their_streams() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let (served, credentials, _) = guarded().await;
    let (session, _) = cookie(&log_in(&served, secret(2).text()).await);
    let mut live = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let request = format!("GET /api/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{session}\r\n");
    live.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    soon("the head", live.read_exact(&mut head)).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    credentials.replace(grants().into_iter().filter(|grant| grant.role != Role::Viewer).collect());
    let mut rest = Vec::new();
    soon("the stream's end", live.read_to_end(&mut rest)).await.unwrap();
    let refused = ask(&served, "GET", "/api/jobs", &session, "").await;
    assert_eq!(refused.code, 401);
}

#[tokio::test]
async fn a_stream_ends_with_its_session() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let mut config = config();
    config.credentials = Credentials::new(grants());
    config.sessions = Some(sessions(Duration::from_millis(700), &Rows::default()));
    let served = serve(config).await;
    let (session, _) = cookie(&log_in(&served, secret(2).text()).await);
    let mut live = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let request = format!("GET /api/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{session}\r\n");
    live.write_all(request.as_bytes()).await.unwrap();
    let mut all = String::new();
    soon("the stream's end", live.read_to_string(&mut all)).await.unwrap();
    assert!(all.starts_with("HTTP/1.1 200") || all.starts_with("HTTP/1.1 401"), "{all}");
    assert_eq!(ask(&served, "GET", "/api/jobs", &session, "").await.code, 401);
}

#[tokio::test]
async fn what_is_not_a_login_is_refused_with_the_form_of_one() {
    let (served, _, rows) = guarded().await;
    let wrong = log_in(&served, secret(99).text()).await;
    assert_eq!((wrong.code, wrong.json()["code"].as_str()), (401, Some("UNAUTHENTICATED")));
    assert!(wrong.head("set-cookie").is_none() && !wrong.body.contains(&secret(99).text()[30..]));
    let worker = log_in(&served, secret(1).text()).await;
    assert_eq!((worker.code, worker.json()["code"].as_str()), (403, Some("PERMISSION_DENIED")));
    for (heads, body) in [("", "{}"), (JSON, "{}"), (JSON, "credential"), (JSON, &"x".repeat(5000))] {
        let answer = ask(&served, "POST", "/api/session", heads, body).await;
        assert_eq!(
            (answer.code, answer.json()["code"].as_str()),
            (400, Some("REQUEST_INVALID")),
            "{heads}{body}"
        );
    }
    let form =
        ask(&served, "POST", "/api/session", "Content-Type: text/plain\r\n", "{\"credential\":\"x\"}").await;
    assert!(
        form.code == 400 && form.json()["detail"].as_str().unwrap().contains("application/json"),
        "{}",
        form.body
    );
    let foreign =
        ask(&served, "POST", "/api/session", &format!("{JSON}Origin: http://evil.example\r\n"), "{}").await;
    assert_eq!(foreign.code, 403);
    let texts: Vec<String> = rows.lock().unwrap().iter().map(|(text, _)| text.clone()).collect();
    let row = |code: &str| format!("log in to the console from 127.0.0.1: {code}");
    assert_eq!(texts, [row("UNAUTHENTICATED"), row("PERMISSION_DENIED")]);
}

#[tokio::test]
async fn a_caller_that_fails_too_often_waits_even_with_the_right_credential() {
    let (served, ..) = guarded().await;
    for _ in 0..30 {
        assert_eq!(log_in(&served, secret(99).text()).await.code, 401);
    }
    let refused = log_in(&served, secret(3).text()).await;
    assert_eq!((refused.code, refused.json()["code"].as_str()), (429, Some("LOGIN_THROTTLED")));
    let wait: u64 = refused.head("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    // Requests of programs with a credential do not count as guesses.
    let heads = format!("Authorization: Bearer {}\r\n", secret(3).text());
    assert_eq!(ask(&served, "GET", "/api/jobs", &heads, "").await.code, 200);
}

#[tokio::test]
async fn without_credentials_nobody_logs_in() {
    let served = serve(config()).await;
    let view = ask(&served, "GET", "/api/session", "", "").await.json();
    assert_eq!((view["authenticated"].as_bool(), view["loginRequired"].as_bool()), (Some(true), Some(false)));
    assert_eq!((view["role"].as_str(), view["logins"].as_array().map(Vec::len)), (Some("admin"), Some(0)));
    let answer = log_in(&served, secret(1).text()).await;
    assert!(answer.code == 400 && answer.body.contains("nothing to log in to"), "{}", answer.body);
}

/// A dialog of the browser's own over the console's page would ask again and again.
#[tokio::test]
async fn a_script_is_not_offered_the_browsers_own_dialog() {
    let (served, ..) = guarded().await;
    for (heads, scheme) in
        [("", "Basic"), ("Sec-Fetch-Mode: navigate\r\n", "Basic"), ("Sec-Fetch-Mode: cors\r\n", "Bearer")]
    {
        let answer = ask(&served, "GET", "/api/jobs", heads, "").await;
        assert_eq!(answer.code, 401);
        assert!(answer.head("www-authenticate").unwrap().starts_with(scheme), "{heads}");
    }
}

#[tokio::test]
async fn another_coordinator_with_the_same_key_takes_the_session() {
    let (served, ..) = guarded().await;
    let (session, _) = cookie(&log_in(&served, secret(2).text()).await);
    let (again, credentials, _) = guarded().await;
    assert_eq!(ask(&again, "GET", "/api/jobs", &session, "").await.code, 200);
    credentials.replace(vec![Grant::by_secret("wall", Role::Worker, &secret(2))]);
    assert_eq!(
        ask(&again, "GET", "/api/jobs", &session, "").await.code,
        403,
        "it may what its credential may now"
    );
}
