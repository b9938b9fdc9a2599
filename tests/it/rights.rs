//! The rights of a credential, with a real coordinator and scripted workers: how much its workers may register, and
//! what happens to those that come back when it allows less.

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
    /// The worker's credential has these jobs, and these additional lines.
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

    /// Edits the credential file, atomically.
    fn change(&self, edit: impl FnOnce(String) -> String) {
        let (file, new) = (self.cluster.home.path("credentials.toml"), self.cluster.home.path("new.toml"));
        let text = edit(std::fs::read_to_string(&file).unwrap());
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, std::fs::metadata(&file).unwrap().permissions()).unwrap();
        std::fs::rename(new, file).unwrap();
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

    /// The first matching frame.
    async fn find<T>(&mut self, pick: impl Fn(Said) -> Option<T>) -> T {
        loop {
            if let Some(found) = pick(self.next().await) {
                return found;
            }
        }
    }

    /// The answer to a registration: its code and message, both empty if it was accepted.
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

/// The jobs under its names count, whoever created them, so leaving and coming back under another name gains nothing.
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
    // It may register an existing job again, and make it smaller, but not larger.
    assert_eq!(worker.registers("alpha-2", 4, MIDNIGHT, true).await, accepted);
    quota(worker.registers("alpha-2", 5, MIDNIGHT, true).await, ["alpha-2", items[1], items[2]]);
    assert_eq!(worker.registers("alpha-2", 3, MIDNIGHT, true).await, accepted);
    // After leaving and coming back they still count.
    drop(worker);
    let mut worker = known.stream(hello("again")).await;
    worker.find(welcome).await;
    quota(worker.registers("alpha-9", 1, MIDNIGHT, false).await, ["alpha-9", jobs[1], jobs[2]]);
}

fn trigger_of(said: Said, job: &str) -> Option<v1::RunRef> {
    if let Said::Trigger(trigger) = said { trigger.run.filter(|run| run.job == job) } else { None }
}

/// Regression: a worker that came back without naming its jobs kept them, and was sent their runs; one that named them
/// was refused as a whole.
#[tokio::test]
async fn a_worker_whose_credential_lost_a_job_is_told_so_and_works_on_for_the_others() {
    for named in [false, true] {
        let known = Known::start("alpha,beta", "").await;
        let config = json!({ "cron": EVERY_SECOND, "failover": true });
        for name in ["alpha", "beta"] {
            known.apply(job(name, 1, config.clone())).await;
        }
        let mut worker = known.stream(hello("by-hand")).await;
        let identity = worker.find(welcome).await;
        for job in ["alpha", "beta"] {
            worker.send(Frame::Register(v1::Register { job: job.into(), ..Default::default() })).await;
        }
        let run = worker.find(|said| trigger_of(said, "beta")).await;
        known.change(|text| text.replace("\"alpha\", \"beta\"", "\"alpha\""));
        let end = async { while let Ok(Some(_)) = worker.frames.message().await {} };
        tokio::time::timeout(PATIENCE, end).await.expect("its stream ends");

        let jobs = if named { vec!["alpha".into(), "beta".into()] } else { Vec::new() };
        let again = v1::Hello {
            worker_id: identity.worker_id.clone(),
            resume_key: identity.resume_key.clone(),
            stream_number: 2,
            jobs,
            ..hello("by-hand")
        };
        let mut worker = known.stream(again.clone()).await;
        assert_eq!(worker.find(welcome).await.worker_id, identity.worker_id, "it is the same");
        // In any order: it is told of the loss, its run of the lost job is stopped, and it goes on with the other job.
        let (mut refused, mut stopped, mut accepted, mut ran) = (None, None, false, 0);
        while refused.is_none() || !accepted || ran < 3 {
            let (done, outcome) = match worker.next().await {
                Said::Refused(told) => {
                    refused = Some((told.job, told.code));
                    continue;
                }
                Said::ReportAck(ack) => {
                    assert_eq!(ack.result(), v1::ReportResult::Accepted, "{ack:?}");
                    accepted |= ack.run == stopped;
                    continue;
                }
                Said::Cancel(cancel) => {
                    stopped = cancel.run.clone();
                    (cancel.run, v1::RunOutcome::Aborted)
                }
                Said::Trigger(trigger) => {
                    assert_eq!(trigger.run.as_ref().unwrap().job, "alpha", "none of the job that it lost");
                    ran += 1;
                    (trigger.run, v1::RunOutcome::Succeeded)
                }
                _ => continue,
            };
            let report =
                v1::RunCompleted { run: done, outcome: outcome.into(), attempt: 1, ..Default::default() };
            worker.send(Frame::RunCompleted(report)).await;
        }
        assert_eq!(refused, Some(("beta".into(), "PERMISSION_DENIED".into())));
        assert_eq!(stopped, Some(run));
        let asked = shown(v1::ListInstancesRequest { job: "beta".into(), ..Default::default() }, &known.boss);
        let there = known.cluster.admin().list_instances(asked).await.unwrap().into_inner();
        assert!(there.instances.is_empty(), "{there:?}");

        // Nor does another credential come back as this worker.
        let file = known.cluster.home.path("credentials.toml");
        let thief = credential(&file, "thief", &["--role", "worker"]);
        let hello = v1::Hello { stream_number: 3, ..again };
        let refused = wait("the thief to be known, and refused", || async {
            let status = match open(known.cluster.channel(), &thief, hello.clone()).await {
                Err(status) => status,
                Ok((_sender, mut frames)) => frames.message().await.unwrap_err(),
            };
            (status.code() != tonic::Code::Unauthenticated).then_some(status)
        })
        .await;
        assert_eq!(code(&refused), "RESUME_REFUSED", "{refused:?}");
        assert!(refused.message().contains("came with another credential"), "{}", refused.message());
    }
}
