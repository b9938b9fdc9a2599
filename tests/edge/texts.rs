//! Texts of workers, sanitized for a terminal at the edge.

use std::collections::BTreeMap;

use rosterd_session::frame::FromWorker;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;

use crate::support::{Worker, config, hello, serve};

/// Clears the screen, sets the window's title, forges a line, and turns the rest around.
const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;owned\u{7}\n2026-11-23T00:00:00Z ERROR forged\u{202e}\u{9b}2J";

fn is_unfit(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn run() -> Option<v1::RunRef> {
    Some(v1::RunRef { job: "j".into(), item: 0, token: 1 })
}

#[tokio::test]
async fn what_a_worker_says_of_itself_and_its_runs_controls_no_terminal() {
    let mut served = serve(config()).await;
    let worker = Worker::open(served.channel().await).await;
    let labels = [(HOSTILE.to_owned(), HOSTILE.to_owned())].into();
    worker.send(Frame::Hello(v1::Hello { client: HOSTILE.into(), labels, ..hello() })).await;
    let mut seen = served.seen().await;
    let Some(FromWorker::Hello(hello)) = seen.frame().await else { panic!("no Hello") };
    let told: BTreeMap<_, _> = hello.labels;
    for text in told.iter().flat_map(|(key, value)| [key, value]).chain([&hello.client]) {
        assert!(text.contains("ERROR forged") && !text.contains(is_unfit), "{text:?}");
    }
    let progress = v1::RunProgress { run: run(), percent: 1, message: HOSTILE.into(), offset: None };
    worker.send(Frame::RunProgress(progress)).await;
    let Some(FromWorker::RunProgress { message, .. }) = seen.frame().await else { panic!("no progress") };
    assert!(message.contains("ERROR forged") && !message.contains(is_unfit), "{message:?}");
    let completed = v1::RunCompleted {
        run: run(),
        outcome: v1::RunOutcome::Failed.into(),
        error: HOSTILE.into(),
        output: format!("a\tb\r\n{HOSTILE}"),
        ..Default::default()
    };
    worker.send(Frame::RunCompleted(completed)).await;
    let Some(FromWorker::RunCompleted(completed)) = seen.frame().await else { panic!("no report") };
    // A traceback and a program's output have lines.
    assert_eq!(completed.error, "x\n2026-11-23T00:00:00Z ERROR forged\u{fffd}\u{fffd}2J");
    assert_eq!(completed.output, format!("a\tb\n{}", completed.error));
    let done = v1::CallbackDone { callback_id: "c".into(), error: HOSTILE.into(), timed_out: false };
    worker.send(Frame::CallbackDone(done)).await;
    let Some(FromWorker::CallbackDone(done)) = seen.frame().await else { panic!("no answer") };
    assert_eq!(done.error, completed.error);
}
