//! REST, over raw HTTP/1: Elastic-Job's routes, rights, problems, pages, tags, live events.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rosterd_api::access::{Credentials, Grant};
use rosterd_api::layers::methods::Role;
use rosterd_coordinator::handle::{
    Action, ClusterEvent, JobRow, JobStatus, MachineAction, Operation, ServerRow, Surveyed, Target,
    WorkerEvent,
};
use rosterd_domain::id::{InstanceId, Item, JobName, ServerAddress, Token};
use rosterd_domain::item::{Ended, Outcome, Source};
use rosterd_domain::time::Time;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::auth::secret;
use crate::http::{self, Answered};
use crate::support::{Served, config, job, serve, soon};

async fn ask_with(address: SocketAddr, method: &str, path: &str, heads: &str, body: &str) -> Answered {
    soon("an answer", http::ask(address, method, path, heads, body)).await
}

async fn ask(served: &Served, method: &str, path: &str) -> Answered {
    ask_with(served.address, method, path, "", "").await
}

fn machine(address: &str, job: &str, enabled: bool) -> ServerRow {
    let (server, job) = (ServerAddress::new(address).unwrap(), JobName::new(job).unwrap());
    ServerRow { server, job, enabled, instances: 0 }
}

#[tokio::test]
async fn jobs_have_elastic_jobs_words_for_their_status() {
    let served = serve(config()).await;
    let of = |name: &str, status| {
        let mut row = job(name);
        row.status = status;
        row
    };
    served.fake.jobs.lock().unwrap().1 = vec![
        of("a", JobStatus::Enabled),
        of("b", JobStatus::NoWorker),
        JobRow { disabled_everywhere: true, ..of("c", JobStatus::NoWorker) },
        of("d", JobStatus::Disabled),
        of("e", JobStatus::Resharding),
        of("f", JobStatus::Paused),
    ];
    let answer = ask(&served, "GET", "/api/jobs").await;
    let rows = answer.json();
    let status: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["OK", "CRASHED", "DISABLED", "DISABLED", "SHARDING_FLAG", "OK"]);
    assert_eq!(ask(&served, "GET", "/api/jobs/count").await.body, "6");
    let crashed = ask(&served, "GET", "/api/jobs?status=CRASHED").await.json();
    assert_eq!(crashed[0]["jobName"], "b");
}

/// Regression: a page of ten jobs read all thousands of them.
#[tokio::test]
async fn only_the_jobs_of_a_page_are_read() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().1 = ["a", "ab", "b", "c", "d"].map(job).to_vec();
    let names = |answer: &Answered| {
        let rows = answer.json();
        let names = rows.as_array().unwrap().iter().map(|row| row["jobName"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let first = ask(&served, "GET", "/api/jobs?limit=2&contains=b&sort=-jobName").await;
    assert_eq!(names(&first), ["b", "ab"]);
    let first = ask(&served, "GET", "/api/jobs?limit=2").await;
    assert_eq!(names(&first), ["a", "ab"]);
    let next = first.head("link").unwrap().split(['<', '>']).nth(1).unwrap().to_owned();
    let next = format!("/api/jobs?{}", next.split_once('?').unwrap().1);
    assert_eq!(names(&ask(&served, "GET", &next).await), ["b", "c"]);
    assert_eq!(served.fake.looked_at.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn lists_come_sorted_and_in_pages() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().1 = ["a", "b", "c", "d", "e"].map(job).to_vec();
    let mut path = "/api/jobs?sort=-jobName&limit=2".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = ask(&served, "GET", &path).await;
        let rows = page.json();
        seen.extend(rows.as_array().unwrap().iter().map(|row| row["jobName"].as_str().unwrap().to_owned()));
        let Some(link) = page.head("link") else { break };
        let (next, relation) = link.split_once(">; ").unwrap();
        assert_eq!(relation, "rel=\"next\"");
        // Relative to the request.
        path = format!("/api/jobs{}", next.trim_start_matches('<'));
    }
    assert_eq!(seen, ["e", "d", "c", "b", "a"]);
}

#[tokio::test]
async fn changes_are_the_operations_that_grpc_asks_for() {
    let served = serve(config()).await;
    *served.fake.servers.lock().unwrap() = vec![machine("m1", "j", true), machine("m1", "k", true)];
    let (name, m1) = (JobName::new("j").unwrap(), ServerAddress::new("m1").unwrap());
    let enable = |target, enabled, cancel| Operation::Enable { job: name.clone(), target, enabled, cancel };
    let both = || vec![name.clone(), JobName::new("k").unwrap()];
    let on_all = |action| Operation::Machine { machine: m1.clone(), jobs: both(), action };
    let on_one = |action| Operation::Machine { machine: m1.clone(), jobs: vec![name.clone()], action };
    let off = MachineAction::Enable { enabled: false, cancel: false };
    let wanted = [
        (
            "POST",
            "/api/jobs/j/trigger?items=0,2",
            Operation::Trigger { job: name.clone(), items: vec![Item(0), Item(2)], after_current: false },
        ),
        ("POST", "/api/jobs/j/disable?cancel=true", enable(Target::Job, false, true)),
        ("DELETE", "/api/jobs/j/disable", enable(Target::Job, true, false)),
        ("POST", "/api/jobs/j/sharding/3/disable", enable(Target::Item(Item(3)), false, false)),
        ("DELETE", "/api/jobs/j/sharding/3/disable", enable(Target::Item(Item(3)), true, false)),
        ("POST", "/api/jobs/j/sharding/3/cancel", Operation::Cancel { job: name.clone(), item: Item(3) }),
        ("POST", "/api/jobs/j/pause", Operation::Pause { job: name.clone(), paused: true }),
        ("DELETE", "/api/jobs/j/pause", Operation::Pause { job: name.clone(), paused: false }),
        ("DELETE", "/api/jobs/config/j?cancel=true", Operation::Remove { job: name.clone(), cancel: true }),
        ("POST", "/api/servers/m1/disable", on_all(off)),
        ("POST", "/api/servers/m1/shutdown", on_all(MachineAction::Shutdown)),
        ("DELETE", "/api/servers/m1", on_all(MachineAction::Remove)),
        ("POST", "/api/servers/m1/jobs/j/disable", enable(Target::Machine(m1.clone()), false, false)),
        ("DELETE", "/api/servers/m1/jobs/j/disable", enable(Target::Machine(m1.clone()), true, false)),
        ("POST", "/api/servers/m1/jobs/j/shutdown", on_one(MachineAction::Shutdown)),
        ("DELETE", "/api/servers/m1/jobs/j", on_one(MachineAction::Remove)),
    ];
    for (method, path, operation) in wanted {
        let answer = ask(&served, method, path).await;
        assert_eq!(answer.code, 200, "{method} {path}: {}", answer.body);
        assert_eq!(answer.json()[0]["effect"], "requested", "{method} {path}");
        assert_eq!(served.fake.operations.lock().unwrap().pop(), Some(operation), "{method} {path}");
    }
}

/// Each refusal, by whichever layer, says what, why and what to do, in one format.
#[tokio::test]
async fn refusals_are_problems_with_a_code_and_its_page() {
    let served = serve(config()).await;
    for (method, path, code, status) in [
        ("GET", "/api/jobs/nosuch", "JOB_UNKNOWN", 404),
        ("GET", "/api/servers/nosuch/jobs", "MACHINE_UNKNOWN", 404),
        ("POST", "/api/session", "REQUEST_INVALID", 400),
        ("GET", "/api/jobs?limit=0", "REQUEST_INVALID", 400),
        ("GET", "/api/jobs?colour=red", "REQUEST_INVALID", 400),
        ("GET", "/api/jobs?sort=colour", "REQUEST_INVALID", 400),
        ("GET", "/api/runs?from=yesterday", "REQUEST_INVALID", 400),
        ("POST", "/api/jobs/j/sharding/x/disable", "REQUEST_INVALID", 400),
        ("POST", "/api/jobs/a%2Fb/trigger", "NAME_INVALID", 400),
        ("GET", "/api/nosuch", "REQUEST_INVALID", 404),
    ] {
        let answer = ask(&served, method, path).await;
        assert_eq!(answer.code, status, "{method} {path}: {}", answer.body);
        assert_eq!(answer.head("content-type"), Some("application/problem+json"), "{path}");
        let problem = answer.json();
        assert_eq!((problem["code"].as_str(), problem["status"].as_u64()), (Some(code), Some(status.into())));
        let page = ask(&served, "GET", problem["type"].as_str().unwrap()).await;
        assert_eq!((page.code, page.json()["code"].as_str()), (200, Some(code)));
    }
    assert!(served.fake.operations.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_trigger_by_get_is_refused_with_a_pointer_and_changes_nothing() {
    let served = serve(config()).await;
    let answer = ask(&served, "GET", "/api/jobs/j/trigger").await;
    assert_eq!((answer.code, answer.head("allow")), (405, Some("POST")));
    assert!(answer.json()["detail"].as_str().unwrap().contains("POST"), "{}", answer.body);
    assert!(served.fake.operations.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing() {
    let served = serve(config()).await;
    for heads in ["Origin: http://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n", "Origin: null\r\n"] {
        let answer = ask_with(served.address, "POST", "/api/jobs/j/trigger", heads, "").await;
        assert_eq!((answer.code, answer.json()["code"].as_str()), (403, Some("ORIGIN_REFUSED")), "{heads}");
    }
    for heads in ["Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n", ""] {
        assert_eq!(
            ask_with(served.address, "POST", "/api/jobs/j/trigger", heads, "").await.code,
            200,
            "{heads}"
        );
    }
    assert_eq!(served.fake.operations.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn rights_are_those_of_grpc() {
    let (viewer, operator, worker) = (secret(1), secret(2), secret(3));
    let grants = vec![
        Grant::by_secret("looks", Role::Viewer, &viewer),
        Grant::by_secret("runs", Role::Operator, &operator),
        Grant::by_secret("works", Role::Worker, &worker),
    ];
    let mut config = config();
    config.credentials = Credentials::new(grants);
    let served = serve(config).await;
    for (who, method, path, code) in [
        (None, "GET", "/api/jobs", 401),
        (Some(&worker), "GET", "/api/jobs", 403),
        (Some(&viewer), "GET", "/api/jobs", 200),
        (Some(&viewer), "POST", "/api/jobs/j/trigger", 403),
        (Some(&operator), "POST", "/api/jobs/j/trigger", 200),
        (Some(&operator), "DELETE", "/api/jobs/config/j", 403),
        (Some(&operator), "PUT", "/api/jobs/config", 403),
        (Some(&operator), "GET", "/api/nosuch", 403),
    ] {
        let heads =
            who.map(|secret| format!("Authorization: Bearer {}\r\n", secret.text())).unwrap_or_default();
        let answer = ask_with(served.address, method, path, &heads, "").await;
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.body);
        if code != 200 {
            assert_eq!(answer.head("content-type"), Some("application/problem+json"));
        }
    }
}

/// Reads server-sent events: id and kind of each.
async fn events(stream: &mut BufReader<TcpStream>, count: usize) -> Vec<(String, String)> {
    let (mut found, mut id, mut kind) = (Vec::new(), String::new(), String::new());
    while found.len() < count {
        let mut line = String::new();
        soon("an event", stream.read_line(&mut line)).await.unwrap();
        let line = line.trim_end();
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.to_owned();
        } else if let Some(text) = line.strip_prefix("event: ") {
            kind = text.to_owned();
        } else if line.is_empty() && !kind.is_empty() {
            found.push((std::mem::take(&mut id), std::mem::take(&mut kind)));
        }
    }
    found
}

async fn live(served: &Served, heads: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream
        .write_all(format!("GET /api/live HTTP/1.1\r\nHost: localhost\r\n{heads}\r\n").as_bytes())
        .await
        .unwrap();
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        soon("the head", stream.read_line(&mut line)).await.unwrap();
        if line.trim_end().is_empty() {
            return stream;
        }
    }
}

#[tokio::test]
async fn a_watcher_that_comes_back_misses_nothing() {
    let served = serve(config()).await;
    let tell = |what: &str| {
        let (job, what) = (JobName::new("j").unwrap(), what.to_owned());
        served
            .fake
            .events
            .send(Arc::new(ClusterEvent::Job { job, action: Action::Change, what, by: None }))
            .unwrap();
    };
    let mut first = live(&served, "").await;
    tell("a");
    let seen = events(&mut first, 1).await;
    drop(first);
    tell("b");
    tell("c");
    let mut again = live(&served, &format!("Last-Event-ID: {}\r\n", seen[0].0)).await;
    let rest = events(&mut again, 2).await;
    assert!(rest.iter().all(|(_, kind)| kind == "job"), "{rest:?}");
    // An id of another coordinator process does not show which events were missed here.
    let mut foreign = live(&served, "Last-Event-ID: other-1.7\r\n").await;
    assert_eq!(events(&mut foreign, 1).await[0].1, "lost");
}

/// The data of the next event.
async fn data(stream: &mut BufReader<TcpStream>) -> serde_json::Value {
    loop {
        let mut line = String::new();
        soon("an event", stream.read_line(&mut line)).await.unwrap();
        if let Some(text) = line.trim_end().strip_prefix("data: ") {
            return serde_json::from_str(text).unwrap();
        }
    }
}

#[tokio::test]
async fn what_happens_is_named_for_programs_and_told_for_people() {
    let served = serve(config()).await;
    let mut stream = live(&served, "").await;
    let job = JobName::new("j").unwrap();
    let instance = InstanceId::new("10.0.0.7@-@w").unwrap();
    let told = [
        ClusterEvent::Job {
            job: job.clone(),
            action: Action::Pause,
            what: "paused".into(),
            by: Some("eve".into()),
        },
        ClusterEvent::Asked { job: None, action: Action::Drain, what: "drain w".into(), by: None },
        ClusterEvent::Worker { instance, change: WorkerEvent::Dead },
    ];
    for event in told {
        served.fake.events.send(Arc::new(event)).unwrap();
    }
    let paused = data(&mut stream).await;
    assert_eq!(
        (&paused["action"], &paused["what"], &paused["principal"]),
        (&"pause".into(), &"paused".into(), &"eve".into())
    );
    assert_eq!(data(&mut stream).await["action"], "drain");
    assert_eq!(data(&mut stream).await["change"], "dead");
}

#[tokio::test]
async fn the_api_describes_itself() {
    let served = serve(config()).await;
    let document = ask(&served, "GET", "/api/openapi.json").await.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    assert!(document["paths"]["/api/jobs/{job}/sharding"]["get"]["responses"]["200"].is_object());
    let page = ask(&served, "GET", "/api").await;
    assert_eq!(page.head("content-security-policy"), Some("default-src 'none'; frame-ancestors 'none'"));
    assert!(page.body.contains("POST /api/jobs/{job}/trigger"), "{}", page.body);
    assert!(page.body.contains("href=\"api/openapi.json\""), "also behind a prefix");
    assert!(!page.body.contains("<script"));
}

/// The refusals of the test suites match the description.
#[tokio::test]
async fn refusals_that_are_met_are_in_the_description() {
    let served = serve(config()).await;
    let document = ask(&served, "GET", "/api/openapi.json").await.json();
    for (method, template, path, heads, status) in [
        ("get", "/api/jobs/{job}", "/api/jobs/nosuch", "", "404"),
        ("get", "/api/jobs", "/api/jobs?limit=0", "", "400"),
        ("put", "/api/jobs/config", "/api/jobs/config", "", "400"),
        ("post", "/api/jobs/{job}/trigger", "/api/jobs/j/trigger", "Origin: http://evil.example\r\n", "403"),
        ("put", "/api/jobs/config", "/api/jobs/config", "Content-Length: 99999999\r\n", "413"),
    ] {
        let answer = if status == "413" {
            crate::web::announced(&served, "PUT", path, 99_999_999).await
        } else {
            ask_with(served.address, &method.to_uppercase(), path, heads, "").await
        };
        assert_eq!(answer.code.to_string(), status, "{method} {path}: {}", answer.body);
        let described = &document["paths"][template][method]["responses"][status];
        assert!(described["content"]["application/problem+json"].is_object(), "{method} {template} {status}");
        assert_eq!(answer.head("content-type"), Some("application/problem+json"));
    }
}

#[tokio::test]
async fn an_instance_is_drained() {
    let served = serve(config()).await;
    let answer = ask(&served, "POST", "/api/instances/10.0.0.1@-@w-1/drain?graceMs=1500").await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let instance = InstanceId::new("10.0.0.1@-@w-1").unwrap();
    let grace = std::time::Duration::from_millis(1500);
    assert_eq!(served.fake.operations.lock().unwrap().pop(), Some(Operation::Drain { instance, grace }));
}

#[tokio::test]
async fn ownership_is_listed_by_item_and_span() {
    let served = serve(config()).await;
    let rows = ask(&served, "GET", "/api/jobs/j/ownership?item=3&from=1970-01-01T00:00:00Z").await.json();
    assert_eq!(
        (rows[0]["item"].as_u64(), rows[0]["to"].is_null(), rows[0]["endReason"].is_null()),
        (Some(3), true, true)
    );
    assert_eq!((&rows[1]["serverIp"], &rows[1]["to"]), (&"10.0.0.7".into(), &"1970-01-01T00:00:01Z".into()));
    assert_eq!(rows[1]["endReason"], "10.0.0.7@-@w has gone");
    assert_eq!(ask(&served, "GET", "/api/jobs/nosuch/ownership").await.code, 404);
    assert_eq!(ask(&served, "GET", "/api/jobs/j/ownership?limit=0").await.code, 400);
}

#[tokio::test]
async fn an_item_is_explained_in_sentences_with_links() {
    let served = serve(config()).await;
    let told = ask(&served, "GET", "/api/jobs/j/sharding/1/explain").await.json();
    let sentence = &told["sentences"][0];
    assert_eq!((&told["jobName"], &told["item"]), (&"j".into(), &1.into()));
    assert_eq!(
        (&sentence["part"], &sentence["text"]),
        (&"owner".into(), &"w owns item 1 of j: first assignment.".into())
    );
    assert_eq!(
        (&sentence["links"][0]["text"], &sentence["links"][0]["href"]),
        (&"j".into(), &"jobs/j".into())
    );
    assert_eq!(ask(&served, "GET", "/api/jobs/j/sharding/9/explain").await.code, 404);
    let refused = ask(&served, "GET", "/api/jobs/j/sharding/x/explain").await;
    assert_eq!((refused.code, refused.json()["code"].as_str()), (400, Some("REQUEST_INVALID")));
}

#[tokio::test]
async fn a_run_is_shown_with_all_runs_of_its_fire() {
    let served = serve(config()).await;
    let shown = ask(&served, "GET", "/api/runs/j/1/7").await.json();
    let tokens: Vec<_> =
        shown["attempts"].as_array().unwrap().iter().map(|run| run["token"].as_u64().unwrap()).collect();
    assert_eq!((shown["run"]["token"].as_u64(), tokens), (Some(7), vec![7, 8]));
    assert_eq!(
        (&shown["run"]["outcome"], &shown["attempts"][1]["source"]),
        (&"crashed".into(), &"FAILOVER".into())
    );
    assert_eq!(ask(&served, "GET", "/api/runs/j/1/9").await.code, 404);
    assert_eq!(ask(&served, "GET", "/api/runs/j/1/x").await.code, 400);
}

/// Every job fires each minute, each of its two items.
#[tokio::test]
async fn scheduled_times_of_all_jobs_come_in_pages_with_why_they_were_not_run() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().1 = ["a", "b"].map(job).to_vec();
    let mut path = "/api/fires?from=2026-11-25T12:00:00Z&to=2026-11-25T12:03:00Z&limit=5".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = ask(&served, "GET", &path).await;
        assert_eq!(page.code, 200, "{path}: {} {}", page.heads, page.body);
        for row in page.json().as_array().unwrap() {
            assert_eq!(row["text"], "It has not begun, and nothing is recorded of it yet.");
            let time = row["fireTime"].as_str().unwrap()[14..16].to_owned();
            seen.push(format!("{time} {} {}", row["jobName"].as_str().unwrap(), row["item"]));
        }
        let Some(link) = page.head("link") else { break };
        path = format!("/api/fires{}", link.split_once(">; ").unwrap().0.trim_start_matches('<'));
    }
    let of = |minute: &str| ["a 0", "a 1", "b 0", "b 1"].map(|item| format!("{minute} {item}"));
    assert_eq!(seen, ["02", "01", "00"].map(of).concat());
    let one = ask(&served, "GET", "/api/fires?job=a&from=2026-11-25T12:00:00Z&to=2026-11-25T12:01:00Z").await;
    assert_eq!(one.json().as_array().unwrap().len(), 2);
    assert_eq!(ask(&served, "GET", "/api/fires?job=nosuch").await.code, 404);
    for bad in ["limit=0", "limit=1001", "from=yesterday", "cursor=x"] {
        assert_eq!(ask(&served, "GET", &format!("/api/fires?{bad}")).await.code, 400, "{bad}");
    }
}

#[tokio::test]
async fn what_is_counted_comes_by_job_and_interval() {
    let served = serve(config()).await;
    let answer = ask(
        &served,
        "GET",
        "/api/counts?job=report&from=2026-11-25T10:00:00Z&interval=5m&to=2026-11-25T11:00:00Z",
    )
    .await;
    let row = &answer.json()[0];
    assert_eq!(
        (&row["jobName"], &row["from"], &row["to"]),
        (&"report".into(), &"2026-11-25T10:00:00Z".into(), &"2026-11-25T10:05:00Z".into()),
        "{row}"
    );
    let counted = ["runs", "succeeded", "failed", "misfired", "missed", "recordsProcessed", "recordsFailed"];
    assert_eq!(counted.map(|name| row[name].as_u64().unwrap()), [9, 7, 2, 1, 3, 70, 20], "{row}");
    for (query, field) in [
        ("interval=7m", "interval"),
        ("from=yesterday", "from"),
        ("from=2026-11-25T10:00:00Z&to=2026-11-25T10:00:00Z", "from"),
        ("interval=5m&from=2026-11-20T10:00:00Z", "interval"),
        ("job=%20", "job"),
        ("color=red", "color"),
    ] {
        let refused = ask(&served, "GET", &format!("/api/counts?{query}")).await;
        assert_eq!(refused.code, 400, "{query}");
        assert!(refused.body.contains(field), "{query}: {}", refused.body);
    }
}

#[tokio::test]
async fn a_configuration_is_checked_and_nothing_is_changed() {
    let served = serve(config()).await;
    let check = |body: &'static str| ask_with(served.address, "POST", "/api/jobs/config/check", "", body);
    let good =
        check(r#"{"jobName":"j","cron":"0 0 12 * * ?","timeZone":"UTC","shardingTotalCount":2}"#).await;
    let checked = good.json();
    assert_eq!(
        (&checked["jobName"], checked["defects"].as_array().unwrap().len()),
        (&"j".into(), 0),
        "{checked}"
    );
    let upcoming = checked["upcoming"].as_array().unwrap();
    assert!(
        upcoming.len() == 20 && upcoming.iter().all(|at| at.as_str().unwrap().ends_with("T12:00:00Z")),
        "{checked}"
    );
    let asked = served.fake.operations.lock().unwrap().pop();
    assert!(matches!(asked, Some(Operation::Apply { dry_run: true, .. })), "{asked:?}");

    let bad = check(r#"{"jobName":"j","cron":"whenever","shardingTotalCount":0,"nonsense":1}"#).await;
    assert_eq!(bad.code, 200, "{}", bad.body);
    let bad = bad.json();
    let fields: Vec<&str> =
        bad["defects"].as_array().unwrap().iter().map(|defect| defect["field"].as_str().unwrap()).collect();
    assert!(["cron", "shardingTotalCount", "nonsense"].iter().all(|field| fields.contains(field)), "{bad}");
    assert!(bad["defects"].as_array().unwrap().iter().all(|defect| defect["message"] != ""), "{bad}");
    assert!(bad["effect"].is_null() && served.fake.operations.lock().unwrap().is_empty());
    assert_eq!(
        check(r#"[{"jobName":"j","shardingTotalCount":1},{"jobName":"k","shardingTotalCount":1}]"#)
            .await
            .code,
        400
    );
}

#[tokio::test]
async fn what_needs_attention_comes_first_and_is_looked_for_once_for_all() {
    let served = serve(config()).await;
    let quiet = |name: &str, status| {
        let row = JobRow { status, running: 1, ..job(name) };
        Surveyed { row, without_owner: 0, waits_since: None, crashed: Vec::new(), unsuccessful: Vec::new() }
    };
    let ended = |outcome| Ended {
        token: Token(7),
        fire: Time(1_000),
        source: Source::NormalTrigger,
        instance: InstanceId::new("10.0.0.7@-@w").unwrap(),
        outcome,
        at: Time(2_000),
        reported: true,
    };
    let enabled = JobStatus::Enabled;
    *served.fake.surveyed.lock().unwrap() = vec![
        quiet("well", enabled),
        Surveyed { unsuccessful: vec![(Item(1), ended(Outcome::Failed))], ..quiet("fails", enabled) },
        Surveyed { crashed: vec![(Item(0), Time(3_000))], ..quiet("crashes", enabled) },
        Surveyed { waits_since: Some(Time(4_000)), without_owner: 2, ..quiet("late", enabled) },
        quiet("alone", JobStatus::NoWorker),
        quiet("torn", JobStatus::Damaged),
    ];
    let began = std::time::Instant::now();
    let asked: Vec<_> = (0..20).map(|_| ask(&served, "GET", "/api/overview")).collect();
    let answers = futures_util::future::join_all(asked).await;
    let (surveys, took) = (served.fake.surveys.load(Ordering::SeqCst), began.elapsed().as_secs());
    assert!(surveys as u64 <= 1 + took, "{surveys} surveys within {took} s");
    let shown = answers[0].json();
    assert!(
        answers.iter().all(|answer| answer.json()["attention"] == shown["attention"]),
        "all are told the same"
    );
    let told: Vec<(&str, &str)> = shown["attention"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["kind"].as_str().unwrap(), one["text"].as_str().unwrap()))
        .collect();
    let expected = [
        ("damaged", "The stored configuration of torn cannot be read: apply it again."),
        ("no_worker", "alone has no worker: nothing of it runs."),
        ("overdue", "late is overdue: its fire of 1970-01-01T00:00:04Z has not begun for some item."),
        ("unassigned", "2 of the 2 items of late have no owner."),
        ("crashed", "A run of crashes crashed and waits to be run again."),
        ("failed", "The last run of item 1 of fails failed."),
        (
            "not_run",
            "4 scheduled times of j were not run, 1970-01-01T00:01:00Z last. No enabled worker owned the item.",
        ),
        ("draining", "Coordinator other is stopping: its workers go to others."),
    ];
    assert_eq!(told, expected);
    assert_eq!(
        (&shown["attention"][5]["href"], &shown["attention"][5]["item"]),
        (&"jobs/fails/items/1".into(), &1.into())
    );
    let figures = ["jobs", "running", "firesPerMinute", "workers", "coordinators", "lagP50Ms", "lagP99Ms"];
    assert_eq!(figures.map(|name| shown[name].as_u64().unwrap()), [6, 6, 90, 3, 2, 50, 99]);
}

#[tokio::test]
async fn how_the_history_stands_is_told() {
    let served = serve(config()).await;
    let history = ask(&served, "GET", "/api/cluster").await.json()["history"].clone();
    assert_eq!(history, serde_json::json!({ "waiting": 0, "waitingBytes": 0, "sent": 0, "dropped": 0 }));
}
