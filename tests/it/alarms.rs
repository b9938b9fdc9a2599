//! Alarms of a real coordinator, sent to real servers: one that records requests, one that answers with errors, one
//! that never answers, and a mail server.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::*;
use crate::http::{self, Answered};
use crate::worker::Does;

/// How a server handles a request.
#[derive(Clone, Copy)]
enum Manner {
    /// 200, and this body.
    Takes(&'static str),
    /// 500 for this many requests, then 200.
    Fails(usize),
    /// It reads, and never answers.
    Hangs,
}

/// A server that records its requests.
#[derive(Clone)]
struct Recorder {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Recorder {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let recorder = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let kept = recorder.requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, manner, kept.clone()));
            }
        });
        recorder
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn requests(&self) -> Vec<(String, Value)> {
        self.requests.lock().unwrap().clone()
    }

    /// The keys of the alarms that a webhook received, each as raised or resolved, in order.
    fn told(&self) -> Vec<String> {
        let keys = |body: &Value, what: &str| -> Vec<String> {
            let alarms = body[what].as_array().cloned().unwrap_or_default();
            alarms.iter().map(|alarm| format!("{what} {}", alarm["key"].as_str().unwrap())).collect()
        };
        let requests = self.requests();
        requests
            .iter()
            .flat_map(|(_, body)| [keys(body, "raised"), keys(body, "resolved")].concat())
            .collect()
    }

    #[track_caller]
    fn told_when<'a>(
        &'a self,
        what: &'a str,
        so: impl Fn(&[String]) -> bool + 'a,
    ) -> impl Future<Output = Vec<String>> + 'a {
        wait(what, move || {
            let told = self.told();
            std::future::ready(so(&told).then_some(told))
        })
    }
}

async fn serve(stream: TcpStream, manner: Manner, kept: Arc<Mutex<Vec<(String, Value)>>>) {
    let mut stream = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await.unwrap();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let number = {
        let mut kept = kept.lock().unwrap();
        kept.push((path, serde_json::from_slice(&body).unwrap()));
        kept.len()
    };
    let (status, body) = match manner {
        Manner::Takes(body) => ("200 OK", body),
        Manner::Fails(times) if number <= times => ("500 Oh", "not now"),
        Manner::Fails(_) => ("200 OK", "fine"),
        Manner::Hangs => return std::future::pending().await,
    };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    // The client may be gone.
    let _gone = stream.write_all(answer.as_bytes()).await;
}

/// A coordinator with this configuration file; each `SECRET:text` is replaced by a file with the text.
async fn with_alarms(toml: &str) -> Cluster {
    let cluster = Cluster::prepare(SHORT, &[]);
    let mut text = String::new();
    for (number, line) in toml.lines().enumerate() {
        match line.split_once("SECRET:") {
            None => text.push_str(line),
            Some((before, secret)) => {
                let file = cluster.home.path(&format!("secret-{number}"));
                std::fs::write(&file, secret.trim_end_matches('"')).unwrap();
                text.push_str(&format!("{before}{}\"", file.display()));
            }
        }
        text.push('\n');
    }
    std::fs::write(cluster.home.path(CONFIG), text).unwrap();
    let mut cluster = cluster;
    cluster.serve().await;
    cluster
}

async fn ask_with(cluster: &Cluster, method: &str, path: &str, body: &str) -> Answered {
    let address = SocketAddr::from(([127, 0, 0, 1], cluster.port));
    http::ask(address, method, path, "", body).await
}

async fn alarms(cluster: &Cluster) -> Value {
    ask_with(cluster, "GET", "/api/alarms", "").await.json()
}

fn webhook(name: &str, recorder: &Recorder) -> String {
    let url = recorder.url("/in");
    format!("[[alarms.receivers]]\nname = \"{name}\"\nform = \"webhook\"\nurl = \"{url}\"\n")
}

const QUICK: &str = "[alarms]\ninterval = \"1s\"\ngroup = \"0s\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_only_worker_is_killed_is_told_and_its_end_too_and_a_receiver_that_hangs_delays_nothing()
{
    let (ops, stuck) = (Recorder::start(Manner::Takes("ok")).await, Recorder::start(Manner::Hangs).await);
    let rule = "[[alarms.rules]]\nalarm = \"no_worker\"\nafter = \"0s\"\n";
    let receivers = webhook("ops", &ops) + &webhook("stuck", &stuck);
    let mut cluster = with_alarms(&format!("{QUICK}{rule}{receivers}")).await;
    // Disabled until its worker is there: so it raises no alarm before.
    cluster.apply(job("report", 1, json!({ "cron": EVERY_SECOND, "disabled": true }))).await;
    cluster.worker("a", vec![runs_for("report", 0)]);
    wait("a worker", || async { (!cluster.instances("report").await.is_empty()).then_some(()) }).await;
    assert_eq!(ask_with(&cluster, "DELETE", "/api/jobs/report/disable", "").await.code, 200);
    wait("runs", || async { (cluster.counters("report").await.runs > 0).then_some(()) }).await;
    assert_eq!(ops.told(), [""; 0]);
    cluster.kill("a");
    let told = ops.told_when("the alarm", |told| !told.is_empty()).await;
    assert_eq!(told[0], "raised no_worker:report");
    let shown = alarms(&cluster).await;
    assert_eq!(shown["active"][0]["jobName"], "report");
    assert_eq!(shown["active"][0]["told"], json!(["ops"]));
    wait("the other receiver to hang", || async { (!stuck.requests().is_empty()).then_some(()) }).await;

    cluster.worker("b", vec![runs_for("report", 0)]);
    let told = ops.told_when("its end", |told| told.len() > 1).await;
    assert_eq!(told[1], "resolved no_worker:report");
    // One receiver hangs all the while, and the fires go on.
    let fired = cluster.counters("report").await.runs;
    wait("fires while a receiver hangs", || async {
        (cluster.counters("report").await.runs >= fired + 5).then_some(())
    })
    .await;
    // Each message is in the audit, under its job.
    let events = wait("the audit", || async {
        let events = ask_with(&cluster, "GET", "/api/events?job=report&principal=alarms", "").await.json();
        events.as_array().cloned().filter(|events| events.len() >= 2)
    })
    .await;
    assert!(
        events.iter().any(|event| event["what"].as_str().unwrap().starts_with("notified ops (webhook): "))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_in_a_row_are_told_after_a_retry_unless_they_are_silenced_and_a_restart_tells_nothing_twice()
{
    let ops = Recorder::start(Manner::Fails(2)).await;
    let rule = "[[alarms.rules]]\nalarm = \"failed\"\ntimes = 3\njobs = [\"bad*\"]\n";
    let mut cluster = with_alarms(&format!("{QUICK}{rule}{}", webhook("ops", &ops))).await;
    let silence = json!({ "job": "bad-2", "durationMs": 3_600_000, "comment": "known" }).to_string();
    let made = ask_with(&cluster, "PUT", "/api/alarms/silences/s-1", &silence).await;
    assert_eq!(made.code, 200, "{}", made.body);
    let always = |job: &str| Does { job: job.into(), fail_attempts: u32::MAX, ..Does::default() };
    cluster.worker("w", ["bad-1", "bad-2", "fine"].map(always).to_vec());
    for name in ["bad-1", "bad-2", "fine"] {
        cluster.apply(job(name, 1, json!({}))).await;
        cluster.assigned(name, 1).await;
    }
    for round in 1..=3 {
        for name in ["bad-1", "bad-2", "fine"] {
            cluster.trigger(name).await;
            wait("a failure", || async { (cluster.counters(name).await.failed == round).then_some(()) })
                .await;
        }
    }
    ops.told_when("the alarm, after two failures of the receiver", |told| told.len() >= 3).await;
    // Each attempt sends the same, and only about the job that is not silenced and that the rule covers.
    wait("the receiver to have taken it", || async {
        (alarms(&cluster).await["active"].as_array()?.iter().any(|alarm| alarm["told"] == json!(["ops"])))
            .then_some(())
    })
    .await;
    assert_eq!(ops.told(), ["raised failed:bad-1"; 3]);
    let shown = alarms(&cluster).await;
    let of = |job: &str| {
        let active = shown["active"].as_array().unwrap();
        active.iter().find(|alarm| alarm["jobName"] == job).cloned().unwrap_or_default()
    };
    assert_eq!((of("bad-2")["silenced"].as_bool(), of("fine").is_null()), (Some(true), true), "{shown}");
    assert_eq!(shown["deliveries"][0]["attempt"], 3);

    cluster.kill_coordinator();
    cluster.serve().await;
    // The silence and the sent alarms are known again; without the silence the other job's alarm is sent, and nothing
    // else.
    let shown = alarms(&cluster).await;
    assert_eq!(
        (shown["silences"][0]["id"].as_str(), shown["active"].as_array().map(Vec::len)),
        (Some("s-1"), Some(2))
    );
    assert_eq!(ask_with(&cluster, "DELETE", "/api/alarms/silences/s-1", "").await.code, 200);
    let told = ops.told_when("the other alarm", |told| told.len() > 3).await;
    assert_eq!(told[3..], ["raised failed:bad-2"]);
    let gone = ask_with(&cluster, "DELETE", "/api/alarms/silences/s-1", "").await;
    assert_eq!((gone.code, gone.json()["code"].as_str()), (404, Some("SILENCE_UNKNOWN")));
}

/// Speaks SMTP, and records the lines that it receives.
async fn mail_server() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, lines) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
    let kept = lines.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            stream.write_all(b"220 here\r\n").await.unwrap();
            let (mut line, mut data) = (String::new(), false);
            while stream.read_line(&mut line).await.unwrap_or(0) > 0 {
                let said = line.trim_end().to_owned();
                line.clear();
                kept.lock().unwrap().push(said.clone());
                let answer = match said.as_str() {
                    "." => "250 taken\r\n",
                    _ if data => continue,
                    "DATA" => "354 go on\r\n",
                    "QUIT" => "221 bye\r\n",
                    _ => "250 fine\r\n",
                };
                data = said == "DATA";
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    (port, lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_receiver_can_be_tried() {
    let ok = Recorder::start(Manner::Takes(r#"{"errcode":0}"#)).await;
    let refuses = Recorder::start(Manner::Takes(r#"{"errcode":310000,"errmsg":"sign not match"}"#)).await;
    let (port, mails) = mail_server().await;
    let (slack, ding, wecom) =
        (ok.url("/slack"), refuses.url("/ding?access_token=t"), ok.url("/wecom?key=k"));
    let duty = ok.url("/duty");
    let cluster = with_alarms(&format!(
        r#"{QUICK}
[[alarms.receivers]]
name = "slack"
form = "slack"
url_file = "SECRET:{slack}"
[[alarms.receivers]]
name = "ding"
form = "dingtalk"
url_file = "SECRET:{ding}"
secret_file = "SECRET:SECabc"
[[alarms.receivers]]
name = "wecom"
form = "wecom"
url_file = "SECRET:{wecom}"
[[alarms.receivers]]
name = "duty"
form = "pagerduty"
url = "{duty}"
routing_key_file = "SECRET:key"
[[alarms.receivers]]
name = "mail"
form = "email"
host = "127.0.0.1"
port = {port}
security = "plain"
from = "rosterd@example.org"
to = ["ops@example.org"]
"#
    ))
    .await;
    let answer = ask_with(&cluster, "POST", "/api/alarms/test", "").await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let done = answer.json();
    let of =
        |name: &str| done.as_array().unwrap().iter().find(|row| row["receiver"] == name).cloned().unwrap();
    for name in ["slack", "wecom", "duty", "mail"] {
        assert_eq!(of(name)["delivered"], true, "{done}");
    }
    assert!(of("ding")["error"].as_str().unwrap().contains("sign not match"), "{done}");
    let said = refuses.requests()[0].0.clone();
    assert!(said.contains("&timestamp=") && said.contains("&sign="), "{said}");
    let events: Vec<(String, Value)> =
        ok.requests().into_iter().filter(|(path, _)| path == "/duty").collect();
    let actions: Vec<_> = events.iter().map(|(_, body)| body["event_action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["trigger", "resolve"], "a test leaves no incident behind");
    let mails = mails.lock().unwrap().clone();
    assert!(mails.contains(&"RCPT TO:<ops@example.org>".to_owned()), "{mails:?}");
    assert!(
        mails.iter().any(|line| line == "Subject: [rosterd default] test: alarms reach you here"),
        "{mails:?}"
    );

    // The same with the command line, and for one alone.
    let (code, out, err) = said_by(&cluster, &["alarms", "test", "--receiver", "wecom", "--json"]).await;
    assert_eq!(
        (code, serde_json::from_str::<Value>(&out).unwrap()[0]["error"].is_null()),
        (Some(0), true),
        "{err}"
    );
    let (code, _, err) = said_by(&cluster, &["alarms", "test", "--receiver", "ding"]).await;
    assert!(code == Some(1) && err.contains("ALARM_NOT_DELIVERED"), "{code:?} {err}");
    let (code, _, err) = said_by(&cluster, &["alarms", "test", "--receiver", "nobody"]).await;
    assert!(code != Some(0) && err.contains("RECEIVER_UNKNOWN"), "{code:?} {err}");
    let silence = ["alarms", "silence", "deploy", "--job", "a*", "--for", "2h", "--comment", "we move"];
    let (code, out, err) = said_by(&cluster, &silence).await;
    assert!(code == Some(0) && out.starts_with("silence deploy holds until"), "{out}{err}");
    let (_, out, _) = said_by(&cluster, &["alarms", "list"]).await;
    assert!(out.starts_with("no alarms\n") && out.contains("deploy") && out.contains("we move"), "{out}");
    assert_eq!(said_by(&cluster, &["alarms", "unsilence", "deploy"]).await.0, Some(0));
    // Secrets do not appear anywhere.
    let log = cluster.logged();
    for secret in ["access_token=t", "key=k", "SECabc"] {
        assert!(!log.contains(secret) && !done.to_string().contains(secret), "{secret} is shown");
    }
}

async fn said_by(cluster: &Cluster, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = tokio::process::Command::new(binary(false));
    command.args(args).args(["--server", &cluster.url()]).env_remove("ROSTERD_SERVER");
    let out = command.output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

/// Elastic-Job's error handler of one job, to a host that the configuration allows. Its scheme is HTTPS, which the
/// server here does not support: the test checks that it is contacted, and that a job without that permission is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_names_dingtalk_itself_has_a_receiver_where_that_is_allowed() {
    let toml = format!("{QUICK}job_hosts = [\"localhost\"]\n");
    let mut cluster = with_alarms(&toml).await;
    let fails = Does { job: "own".into(), fail_attempts: u32::MAX, ..Does::default() };
    cluster.worker("w", vec![fails]);
    let with = |host: &str| {
        let url = format!("https://{host}/robot/send?access_token=secret-token");
        json!({ "jobErrorHandlerType": "DINGTALK", "props": { "dingtalk.webhook": url } })
    };
    cluster.apply(job("own", 1, with("localhost"))).await;
    cluster.apply(job("other", 1, with("169.254.169.254"))).await;
    cluster.assigned("own", 1).await;
    cluster.trigger("own").await;
    let shown = wait("an attempt to tell", || async {
        let shown = alarms(&cluster).await;
        let tried = shown["deliveries"].as_array()?.iter().any(|row| row["receiver"] == "job own");
        (tried && !shown["refused"].as_array()?.is_empty()).then_some(shown)
    })
    .await;
    assert_eq!(shown["active"][0]["key"], "jobErrorHandlerType:own");
    let why = shown["refused"][0]["why"].as_str().unwrap();
    assert!(why.contains("169.254.169.254 is not among alarms.job_hosts"), "{why}");
    assert!(!shown.to_string().contains("secret-token"), "{shown}");
    assert!(
        !Path::new(&cluster.data).join("alarms.json").exists()
            || !std::fs::read_to_string(cluster.data.join("alarms.json")).unwrap().contains("secret-token")
    );
}
