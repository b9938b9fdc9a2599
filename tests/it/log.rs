//! A worker's texts are in the coordinator's log as a part of a line, never as a line of their own; a person's actions
//! are in the audit, whatever follows.

use std::process::Command;

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Said;
use serde_json::{Value, json};
use tonic::transport::Endpoint;

use crate::harness::*;
use crate::raw::{self, Raw};

/// The error of a callback that imitates the coordinator's log.
const FORGED: &str =
    "x\n2026-11-23T00:00:00.000000Z ERROR forged\r\n{\"level\":\"ERROR\",\"message\":\"forged\"}\n\u{1b}[2K";

/// A coordinator whose log is of this format, and the log.
async fn serve(home: &Home, format: &str) -> (Proc, std::path::PathBuf, u16) {
    let log = home.path(&format!("{format}.log"));
    let mut command = Command::new(binary(false));
    clean(&mut command);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", format, "--data-dir"]);
    command.arg(home.path(&format!("{format}.data"))).args(["--set", "lease=30s", "--set", "session=60s"]);
    let proc = Proc::spawn("coordinator", command, &log);
    let port = wait("its port", || {
        let text = std::fs::read_to_string(&log).unwrap();
        let line = text.lines().find(|line| line.contains("serving")).map(str::to_owned);
        let digits = line.and_then(|line| {
            let rest = line.split_once("127.0.0.1:")?.1.to_owned();
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        });
        std::future::ready(digits)
    })
    .await;
    (proc, log, port)
}

/// A worker whose callback fails with the text, and that reports its first run as failed with it.
async fn fails(port: u16) {
    let url = format!("http://127.0.0.1:{port}");
    let channel = Endpoint::from_shared(url).unwrap().timeout(PATIENCE).connect_lazy();
    let (mut worker, _) = Raw::attached(channel, raw::hello()).await;
    let guarantee = json!({ "started": true, "timeout_ms": 60_000 });
    let config = job("held", 1, json!({ "cron": EVERY_SECOND, "rosterd": { "guarantee": guarantee } }));
    worker.send(Frame::Register(v1::Register { config, ..raw::register("held") })).await;
    let callback = worker
        .find("Callback", |said| if let Said::Callback(callback) = said { Some(callback) } else { None })
        .await;
    let done = v1::CallbackDone { callback_id: callback.callback_id, error: FORGED.into(), timed_out: false };
    worker.send(Frame::CallbackDone(done)).await;
    let run = worker.trigger().await.run.unwrap();
    let report = v1::RunCompleted {
        run: Some(run),
        outcome: v1::RunOutcome::Failed.into(),
        error: FORGED.into(),
        ..Default::default()
    };
    worker.send(Frame::RunCompleted(report)).await;
    worker.find("ReportAck", |said| if let Said::ReportAck(ack) = said { Some(ack) } else { None }).await;
}

async fn logged(log: &std::path::Path) -> String {
    wait("the failed callback", || {
        let text = std::fs::read_to_string(log).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]).to_owned();
        std::future::ready(whole.contains("a callback failed").then_some(whole))
    })
    .await
}

#[tokio::test]
async fn an_error_with_a_forged_line_is_one_line_of_the_coordinators_text() {
    let home = Home::new();
    let (_proc, log, port) = serve(&home, "text").await;
    fails(port).await;
    let text = logged(&log).await;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (time, level) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        assert!(
            time.parse::<jiff::Timestamp>().is_ok() && ["INFO", "WARN"].contains(&level),
            "{line:?} in\n{text}"
        );
    }
    let line = text.lines().find(|line| line.contains("a callback failed")).unwrap();
    assert!(line.contains("ERROR forged") && !line.contains('\u{1b}'), "all of it, on its line: {line:?}");
}

#[tokio::test]
async fn an_error_with_a_forged_line_is_one_line_of_the_coordinators_json() {
    let home = Home::new();
    let (_proc, log, port) = serve(&home, "json").await;
    fails(port).await;
    let text = logged(&log).await;
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().all(|line| line["level"] != "ERROR"), "{text}");
    let told =
        |line: &&Value| line["message"].as_str().is_some_and(|text| text.contains("a callback failed"));
    let line = lines.iter().find(told).expect("a flat message");
    assert!(line["message"].as_str().unwrap().contains("forged") && line["job"] == "held", "{line}");
}

#[tokio::test]
async fn what_was_done_is_in_the_audit_when_the_coordinator_is_killed_at_once() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("kept", 2, json!({}))).await;
    for _ in 0..3 {
        cluster.admin().pause_job(v1::PauseJobRequest { job: "kept".into() }).await.unwrap();
        cluster.kill_coordinator();
        cluster.serve().await;
        cluster.admin().resume_job(v1::ResumeJobRequest { job: "kept".into() }).await.unwrap();
        cluster.kill_coordinator();
        cluster.serve().await;
    }
    let request = v1::ListEventsRequest { job: "kept".into(), page_size: 100, ..Default::default() };
    let events = cluster.admin().list_events(request).await.unwrap().into_inner().events;
    let told = |what: &str| events.iter().filter(|event| event.what.contains(what)).count();
    assert_eq!((told("paused"), told("resumed")), (3, 3), "{events:#?}");
}
