//! What a credential allows, with a real coordinator and workers that are spoken by hand: how much its workers may bring.

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Said;
use serde_json::json;
use tokio::sync::mpsc;
use tonic::Streaming;

use crate::harness::*;
use crate::hostile::{credential, hello, open, shown};

/// A coordinator with an administrator and one credential for workers, `fleet`.
struct Known {
    cluster: Cluster,
    boss: String,
    fleet: String,
}

impl Known {
    /// The worker's credential has these jobs, and these lines more.
    async fn start(jobs: &str, more: &str) -> Self {
        let mut cluster = Cluster::prepare(SHORT, &[]);
        let file = cluster.home.path("credentials.toml");
        let boss = credential(&file, "boss", &["--role", "admin"]);
        let fleet = credential(&file, "fleet", &["--role", "worker", "--jobs", jobs]);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text + more).unwrap();
        cluster.settings.push(format!("credentials={}", file.display()));
        cluster.launch();
        cluster.listening().await;
        Self { cluster, boss, fleet }
    }

    async fn apply(&self, text: String) {
        let asked = shown(v1::ApplyJobsRequest { text, dry_run: false }, &self.boss);
        self.cluster.admin().apply_jobs(asked).await.unwrap();
    }

    /// A worker's stream, from its Hello on.
    async fn stream(&self, hello: v1::Hello) -> Spoken {
        let (sender, frames) = open(self.cluster.channel(), &self.fleet, hello).await.unwrap();
        Spoken { sender, frames }
    }
}

struct Spoken {
    sender: mpsc::Sender<v1::SessionRequest>,
    frames: Streaming<v1::SessionResponse>,
}

impl Spoken {
    async fn send(&self, frame: Frame) {
        self.sender.send(v1::SessionRequest { frame: Some(frame) }).await.unwrap();
    }

    async fn next(&mut self) -> Said {
        let frame = tokio::time::timeout(PATIENCE, self.frames.message()).await;
        frame.expect("waited in vain for a frame").unwrap().expect("the stream goes on").frame.unwrap()
    }

    /// The first frame of which something is wanted.
    async fn find<T>(&mut self, pick: impl Fn(Said) -> Option<T>) -> T {
        loop {
            if let Some(found) = pick(self.next().await) {
                return found;
            }
        }
    }

    /// What a registration is answered: its code and message, both empty where it was accepted.
    async fn registers(&mut self, name: &str, items: u32, cron: &str, overwrite: bool) -> (String, String) {
        let config = job(name, items, json!({ "cron": cron }));
        let job = name.to_owned();
        self.send(Frame::Register(v1::Register { job, config, overwrite, ..Default::default() })).await;
        self.find(|said| match said {
            Said::Registered(registered) if registered.job == name => Some(Default::default()),
            Said::Refused(refused) if refused.job == name => Some((refused.code, refused.message)),
            _ => None,
        })
        .await
    }
}

fn welcome(said: Said) -> Option<v1::Welcome> {
    if let Said::Welcome(welcome) = said { Some(welcome) } else { None }
}

const MIDNIGHT: &str = "0 0 0 * * ?";

/// Counted are the jobs under its names, whoever made them, so that leaving and coming under another name gains nothing.
#[tokio::test]
async fn a_worker_brings_no_more_than_its_credential_allows() {
    let known = Known::start("alpha-*", "max_jobs = 3\nmax_items = 10\nmax_runs_per_minute = 100\n").await;
    known.apply(job("alpha-0", 4, json!({ "cron": MIDNIGHT }))).await;
    known.apply(job("other", 4000, json!({ "cron": MIDNIGHT }))).await;
    let mut worker = known.stream(hello("by-hand")).await;
    worker.find(welcome).await;
    let accepted = (String::new(), String::new());
    assert_eq!(worker.registers("alpha-1", 2, MIDNIGHT, false).await, accepted);

    let quota = |(code, message): (String, String), parts: [&str; 3]| {
        assert_eq!(code, "QUOTA_EXCEEDED", "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    let items = ["job alpha-2", "11 items, and max_items of the credential is 10", "use fewer items"];
    quota(worker.registers("alpha-2", 5, MIDNIGHT, false).await, items);
    // At midnight the others make 6 runs in a minute; this one would make 2 a second.
    let often =
        ["126 runs in the busiest minute", "max_runs_per_minute of the credential is 100", "fire less often"];
    quota(worker.registers("alpha-2", 2, EVERY_SECOND, false).await, often);
    assert_eq!(worker.registers("alpha-2", 4, MIDNIGHT, false).await, accepted);
    let jobs = ["alpha-3", "4 jobs, and max_jobs of the credential is 3", "have max_jobs raised"];
    quota(worker.registers("alpha-3", 1, MIDNIGHT, false).await, jobs);
    // What it has it may register again, and make smaller, but not larger.
    assert_eq!(worker.registers("alpha-2", 4, MIDNIGHT, true).await, accepted);
    quota(worker.registers("alpha-2", 5, MIDNIGHT, true).await, ["alpha-2", items[1], items[2]]);
    assert_eq!(worker.registers("alpha-2", 3, MIDNIGHT, true).await, accepted);
    // Who leaves and comes again finds them counted.
    drop(worker);
    let mut worker = known.stream(hello("again")).await;
    worker.find(welcome).await;
    quota(worker.registers("alpha-9", 1, MIDNIGHT, false).await, ["alpha-9", jobs[1], jobs[2]]);
}
