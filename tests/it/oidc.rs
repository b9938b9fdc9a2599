//! Logging in with a real identity provider (`oidc-provider`, in tests/oidc), with a simulated browser: it follows
//! pages, sends forms, and keeps cookies per server.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::*;
use crate::http::{self, Answered};

/// The provider's process, until this is dropped.
struct Provider {
    child: Child,
    lines: BufReader<ChildStdout>,
    issuer: String,
}

impl Provider {
    fn start() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oidc");
        assert!(
            folder.join("node_modules").exists(),
            "the provider's packages are missing: run cargo xtask setup"
        );
        let mut command = Command::new("node");
        let command =
            command.arg("provider.mjs").current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut provider = Self { child, lines, issuer: String::new() };
        provider.issuer = provider.line();
        provider
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        // It ends when the process ends.
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Serves, with the address to which it redirects browsers.
    fn serve(&mut self, redirect: &str) {
        writeln!(self.child.stdin.as_ref().unwrap(), "{redirect}").unwrap();
        assert_eq!(self.line(), "ready");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A browser: the cookies of each server.
#[derive(Default, Clone)]
struct Browser(BTreeMap<(SocketAddr, String), String>);

impl Browser {
    async fn ask(&mut self, method: &str, url: &str, body: &str) -> Answered {
        let (server, path) = split(url);
        let mine = self.0.iter().filter(|((address, _), value)| *address == server && !value.is_empty());
        let pairs: Vec<String> = mine.map(|((_, name), value)| format!("{name}={value}")).collect();
        let form = if body.is_empty() { "" } else { "Content-Type: application/x-www-form-urlencoded\r\n" };
        let heads = format!("Host: {server}\r\nCookie: {}\r\n{form}", pairs.join("; "));
        let answer = http::ask_as(server, method, path, &heads, body).await;
        let set = answer.heads.lines().filter_map(|line| line.split_once(": "));
        for (_, cookie) in set.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            self.0.insert((server, name.to_owned()), value.to_owned());
        }
        answer
    }

    /// Follows the provider's pages as this person, up to the address of the coordinator's that it sends the browser back to.
    async fn logged_in_as(&mut self, person: &str, begin: &str, back: &str) -> String {
        let (mut url, mut body) = (begin.to_owned(), String::new());
        for _ in 0..20 {
            let answer = self.ask(if body.is_empty() { "GET" } else { "POST" }, &url, &body).await;
            body.clear();
            if let Some(location) = answer.head("location") {
                url = joined(&url, location);
                if url.starts_with(back) {
                    return url;
                }
            } else {
                let (_, rest) =
                    answer.body.split_once("action=\"").unwrap_or_else(|| panic!("no form: {}", answer.body));
                let action = rest.split('"').next().unwrap().to_owned();
                let login = answer.body.contains("name=\"login\"");
                body = if login {
                    format!("prompt=login&login={person}&password=x")
                } else {
                    "prompt=consent".into()
                };
                url = joined(&url, &action);
            }
        }
        panic!("the provider's pages do not end")
    }
}

fn split(url: &str) -> (SocketAddr, &str) {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url}"));
    let at = rest.find('/').unwrap_or(rest.len());
    (rest[..at].parse().unwrap(), &rest[at..])
}

fn joined(base: &str, link: &str) -> String {
    if link.starts_with("http") { link.to_owned() } else { format!("http://{}{link}", split(base).0) }
}

async fn with_provider(more: &[&str]) -> (Cluster, Provider, String) {
    let mut provider = Provider::start();
    let mut cluster = Cluster::prepare(SHORT, more);
    let (credentials, secret) = (cluster.home.path("credentials.toml"), cluster.home.path("secret"));
    std::fs::write(&credentials, "").unwrap();
    std::fs::write(&secret, "a secret: with/marks\n").unwrap();
    cluster.settings.extend([
        format!("credentials={}", credentials.display()),
        format!("oidc_issuer={}", provider.issuer),
        "oidc_client_id=console".to_owned(),
        format!("oidc_client_secret_file={}", secret.display()),
        "oidc_roles=operator=rosterd-operators,admin=rosterd-admins".to_owned(),
    ]);
    cluster.launch();
    cluster.listening().await;
    let console = format!("http://127.0.0.1:{}", cluster.port);
    provider.serve(&format!("{console}/login/oidc/callback"));
    (cluster, provider, console)
}

async fn log_in(browser: &mut Browser, console: &str, person: &str) -> Answered {
    let begun = browser.ask("GET", &format!("{console}/login/oidc?to=/jobs/a"), "").await;
    assert_eq!(begun.code, 303, "{}", begun.body);
    let begin = begun.head("location").unwrap().to_owned();
    let back = browser.logged_in_as(person, &begin, console).await;
    browser.ask("GET", &back, "").await
}

#[tokio::test]
async fn a_person_logs_in_at_the_provider_with_the_rights_of_a_claim() {
    let (_cluster, mut provider, console) = with_provider(&[]).await;
    let mut browser = Browser::default();
    let offered = browser.ask("GET", &format!("{console}/api/session"), "").await.json();
    assert_eq!(offered["logins"][1]["kind"], "oidc");
    assert_eq!(offered["logins"][1]["href"], "login/oidc");
    let done = log_in(&mut browser, &console, "ann").await;
    assert_eq!((done.code, done.head("location")), (303, Some("/jobs/a")), "{}", done.body);
    assert!(
        done.heads.contains("rosterd_session=") && done.heads.contains("SameSite=Strict"),
        "{}",
        done.heads
    );
    let session = browser.ask("GET", &format!("{console}/api/session"), "").await.json();
    assert_eq!(
        (session["principal"].as_str(), session["role"].as_str()),
        (Some("oidc:ann"), Some("operator"))
    );
    let (address, _) = split(&console);
    let cookie = &browser.0[&(address, "rosterd_session".to_owned())];
    let token = session["csrfToken"].as_str().unwrap();
    let heads = format!("Cookie: rosterd_session={cookie}\r\nX-CSRF-Token: {token}\r\n");
    let paused = http::ask(address, "POST", "/api/jobs/nosuch/pause", &heads, "").await;
    assert_eq!(paused.json()["code"], "JOB_UNKNOWN", "an operator may");
    let removed = http::ask(address, "DELETE", "/api/jobs/config/nosuch", &heads, "").await;
    assert_eq!(removed.json()["code"], "PERMISSION_DENIED", "and no more than that");

    // The provider goes down: existing sessions continue, and new logins get an error.
    provider.kill();
    assert_eq!(http::ask(address, "GET", "/api/jobs", &heads, "").await.code, 200);
    let mut other = Browser::default();
    let begun = other.ask("GET", &format!("{console}/login/oidc"), "").await;
    let (_, state) = begun.head("location").unwrap().split_once("&state=").unwrap();
    let back = format!("{console}/login/oidc/callback?code=c&state={}", state.split('&').next().unwrap());
    let refused = other.ask("GET", &back, "").await;
    assert!(refused.code == 503 && refused.body.contains("PROVIDER_UNAVAILABLE"), "{}", refused.body);
}

/// It accepts connections and does not answer: a login fails after a while, and no other request waits.
#[tokio::test]
async fn a_provider_that_hangs_delays_only_its_own_users() {
    let (_cluster, provider, console) = with_provider(&[]).await;
    provider.signal(Signal::STOP);
    // More than the limit of concurrent requests to it.
    let begun = (0..10).map(|_| {
        let console = console.clone();
        tokio::spawn(async move { Browser::default().ask("GET", &format!("{console}/login/oidc"), "").await })
    });
    let begun: Vec<_> = begun.collect();
    let mut meanwhile = 0;
    while !begun.iter().any(tokio::task::JoinHandle::is_finished) {
        let asked = Browser::default().ask("GET", &format!("{console}/api/session"), "").await;
        assert_eq!(asked.code, 200, "{}", asked.body);
        meanwhile += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(meanwhile > 1, "others are answered while logins wait");
    for login in begun {
        let refused = login.await.unwrap();
        assert!(refused.code == 503 && refused.body.contains("PROVIDER_UNAVAILABLE"), "{}", refused.body);
    }
    provider.signal(Signal::CONT);
    let done = log_in(&mut Browser::default(), &console, "ann").await;
    assert_eq!((done.code, done.head("location")), (303, Some("/jobs/a")), "{}", done.body);
}

#[tokio::test]
async fn a_login_is_worth_nothing_in_another_browser_or_a_second_time() {
    let (_cluster, _provider, console) = with_provider(&[]).await;
    let mut browser = Browser::default();
    let begun = browser.ask("GET", &format!("{console}/login/oidc"), "").await;
    let begin = begun.head("location").unwrap().to_owned();
    for part in ["response_type=code", "code_challenge_method=S256", "&nonce=", "&state=", "scope=openid"] {
        assert!(begin.contains(part), "{part}: {begin}");
    }
    let back = browser.logged_in_as("ann", &begin, &console).await;
    let stolen = Browser::default().ask("GET", &back, "").await;
    assert!(stolen.code == 401 && stolen.head("set-cookie").is_none(), "{}", stolen.heads);
    // The code of another person under one's own login.
    let mut victim = Browser::default();
    victim.ask("GET", &format!("{console}/login/oidc"), "").await;
    assert_eq!(victim.ask("GET", &back, "").await.code, 401);
    let mut again = browser.clone();
    assert_eq!(browser.ask("GET", &back, "").await.code, 303);
    let replayed = again.ask("GET", &back, "").await;
    assert!(replayed.code == 401 && replayed.body.contains("UNAUTHENTICATED"), "{}", replayed.body);
    // A person who declines at the provider gets an error, and no session.
    let mut other = Browser::default();
    let begun = other.ask("GET", &format!("{console}/login/oidc"), "").await;
    let (_, state) = begun.head("location").unwrap().split_once("&state=").unwrap();
    let state = state.split('&').next().unwrap();
    let back = format!("{console}/login/oidc/callback?error=access_denied&state={state}");
    let declined = other.ask("GET", &back, "").await;
    assert!(declined.code == 401 && declined.body.contains("access_denied"), "{}", declined.body);
}

#[tokio::test]
async fn a_user_without_a_group_has_no_role_and_jobs_are_those_of_the_claim() {
    let (cluster, _provider, console) = with_provider(&["oidc_jobs_claim=rosterd_jobs"]).await;
    let refused = log_in(&mut Browser::default(), &console, "eve").await;
    assert!(refused.code == 403 && refused.body.contains("oidc_roles"), "{} {}", refused.code, refused.body);
    assert!(!refused.heads.contains("rosterd_session="), "{}", refused.heads);
    let all = log_in(&mut Browser::default(), &console, "ann").await;
    assert!(all.code == 403 && all.body.contains("names no job"), "{}", all.body);
    let mut bob = Browser::default();
    assert_eq!(log_in(&mut bob, &console, "bob").await.code, 303);
    let session = bob.ask("GET", &format!("{console}/api/session"), "").await.json();
    assert_eq!((session["role"].as_str(), session["jobs"][0].as_str()), (Some("admin"), Some("billing-*")));
    // Once a change is acknowledged, it is in the audit.
    let audit = bob.ask("GET", &format!("{console}/api/events?kind=operation&principal=oidc:bob"), "").await;
    assert!(audit.body.contains("log in to the console") && audit.body.contains(": done"), "{}", audit.body);
    let audit = cluster.logged();
    assert!(audit.contains("a login was asked for") && audit.contains("oidc:bob"), "the log says who came");
}
