//! The sizes of requests and answers between coordinators and servers. A server refuses a request above 1 MiB
//! (`jute.maxbuffer`): we stay well below, in answers as well, at any scale.

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Said;
use serde_json::json;
use tokio::sync::watch;

use crate::fleet::{Fleet, asked, shared};
use crate::harness::*;
use crate::late::Beating;
use crate::proxy::Proxy;
use crate::raw::{self, Raw};

/// However many jobs and instances there are, no request and no answer is larger, in bytes.
const LARGEST: [u64; 2] = [256 * 1024; 2];
/// How many workers work for each job.
const WORKERS: u32 = 4;
/// No worker may be marked dead while thousands of registrations are written.
const CALM: Timing = timing(20_000, 500, 40_000);

async fn behind(proxy: &Proxy) -> Fleet {
    let mut fleet = Fleet::prepare(1, &proxy.address(), CALM);
    fleet.launch(0);
    fleet.serving(0).await;
    fleet
}

#[track_caller]
fn is_small(proxy: &Proxy, limit: [u64; 2], what: &str) {
    let [request, answer] = proxy.largest();
    println!("{what}: the largest request had {request} bytes, the largest answer {answer}");
    assert!(request > 0 && request <= limit[0], "{what}: a request of {request} bytes");
    assert!(answer > 0 && answer <= limit[1], "{what}: an answer of {answer} bytes");
}

/// Works for all these jobs, and reports for how many it was registered.
async fn work(mut raw: Raw, jobs: Vec<String>, done: watch::Sender<usize>) {
    let sender = raw.sender.clone();
    let asks = async {
        for job in &jobs {
            let frame = Some(Frame::Register(raw::register(job)));
            if sender.send(v1::SessionRequest { frame }).await.is_err() {
                return;
            }
        }
        std::future::pending::<()>().await;
    };
    let hears = async {
        loop {
            match raw.next().await {
                Ok(Some(Said::Registered(_))) => done.send_modify(|done| *done += 1),
                Ok(Some(Said::Refused(refused))) => panic!("{refused:?}"),
                Ok(Some(_)) => {}
                // The coordinator has gone.
                Ok(None) | Err(_) => return,
            }
        }
    };
    tokio::select! {
        () = asks => {}
        () = hears => {}
    }
}

/// Hundreds of jobs with four workers each, then a new coordinator that reads it all. `JOBS=5000` makes it 20,000
/// instances, which takes minutes: more than the suite has time for.
#[tokio::test]
async fn many_jobs_and_instances_make_no_large_packets() {
    let proxy = Proxy::start(&shared().list());
    let mut fleet = behind(&proxy).await;
    let names: Vec<String> = (0..asked("JOBS", 200)).map(|n| format!("job{n}")).collect();
    for some in names.chunks(50) {
        let files: Vec<String> = some.iter().map(|name| job(name, 1, json!({}))).collect();
        fleet.apply(files.join("\n---\n")).await;
    }
    let mut working = Vec::new();
    for n in 0..WORKERS {
        let hello = v1::Hello { address: format!("by-hand-{n}"), ..raw::hello() };
        let (raw, _) = Raw::attached(fleet.channel_of(0), hello).await;
        let beating = Beating::of(&raw, fleet.timing);
        let (done, registered) = watch::channel(0);
        working.push((beating, registered, tokio::spawn(work(raw, names.clone(), done))));
    }
    for (_, registered, _) in &mut working {
        // As long as it makes progress, it may take its time.
        let mut before = 0;
        while before < names.len() {
            before = wait(format!("more than {before} of {} registrations", names.len()), || {
                let now = *registered.borrow_and_update();
                std::future::ready((now > before).then_some(now))
            })
            .await;
        }
    }
    for name in names.iter().step_by(20) {
        fleet.assigned(name, 1).await;
        assert_eq!(fleet.instances(name).await.len(), WORKERS as usize, "{name}");
    }
    is_small(&proxy, LARGEST, &format!("{} jobs, {} instances", names.len(), names.len() * WORKERS as usize));
    fleet.crash(0);
    fleet.launch(0);
    fleet.serving(0).await;
    fleet.job(&names[0]).await;
    is_small(&proxy, LARGEST, "a coordinator that comes new");
}

/// The assignment of ten thousand items is one value, and moving them one transaction.
#[tokio::test]
async fn ten_thousand_items_make_packets_that_servers_take() {
    let proxy = Proxy::start(&shared().list());
    let mut fleet = behind(&proxy).await;
    fleet.apply(job("many", 10_000, json!({}))).await;
    for name in ["a", "b"] {
        fleet.worker_at(0, name, vec![runs_for("many", 1)]);
    }
    fleet.assigned("many", 2).await;
    fleet.process("a").signal(rustix::process::Signal::TERM);
    assert!(fleet.process("a").end().await.success());
    fleet.assigned("many", 1).await;
    is_small(&proxy, LARGEST, "10,000 items");
}
