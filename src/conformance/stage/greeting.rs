//! Attaching, and the frames before anything runs.

use std::time::Duration;

use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{Hello, JobKind, Register, Registered, Welcome};

use super::{PATIENCE, Stage};
use crate::broken::Played;
use crate::coordinator::frames;
use crate::event::WorkerEvent;

impl Stage {
    /// The Hello of the next stream; all later frames go there.
    pub(crate) async fn hello(&mut self) -> Played<Hello> {
        self.hello_within(PATIENCE).await
    }

    pub(crate) async fn hello_within(&mut self, patience: Duration) -> Played<Hello> {
        let after = self.current;
        let next = self.find_within(patience, 0, "the Hello of a new stream", |entry| match &entry.event {
            WorkerEvent::Frame(number, Some(Said::Hello(hello)))
                if after.is_none_or(|after| *number > after) =>
            {
                Some((*number, hello.clone()))
            }
            _ => None,
        });
        let (number, hello) = next.await?;
        self.current = Some(number);
        Ok(hello)
    }

    pub(crate) fn welcome_frame(&mut self) -> Welcome {
        self.welcomes += 1;
        let setting = self.setting;
        let others = self.coordinators.iter().skip(setting.given);
        let named = others.map(|one| format!("http://{}:{}", setting.host, one.address.port()));
        Welcome {
            worker_id: self.worker_id.clone(),
            instance_id: format!("10.0.0.7@-@{}", self.worker_id),
            resume_key: format!("key-{}", self.welcomes),
            namespace: "default".into(),
            lease: Some(frames::span(setting.lease)),
            heartbeat_interval: Some(frames::span(setting.interval)),
            stop_budget: Some(frames::span(setting.budget)),
            coordinators: named.collect(),
            max_unacknowledged_reports: setting.credits,
            coordinator_id: "script".into(),
        }
    }

    pub(crate) async fn welcome(&mut self) -> Played {
        let welcome = self.welcome_frame();
        self.say(Frame::Welcome(welcome)).await
    }

    /// From the next Welcome on it is another worker.
    pub(crate) fn rename(&mut self, worker_id: &str) {
        worker_id.clone_into(&mut self.worker_id);
    }

    /// Every Register of the stream of now, one for each job.
    pub(crate) async fn registers(&mut self) -> Played<Vec<Register>> {
        let mut all = Vec::new();
        for job in self.setting.jobs {
            let what = format!("Register of {job}");
            let register = self.frame(0, &what, |frame| match frame {
                Said::Register(register) if register.job == *job => Some(register.clone()),
                _ => None,
            });
            all.push(register.await?);
        }
        Ok(all)
    }

    pub(crate) async fn register(&mut self, job: &str) -> Played {
        let kind = if job.starts_with("dataflow") { JobKind::Dataflow } else { JobKind::Simple };
        self.say(Frame::Registered(Registered {
            job: job.to_owned(),
            sharding_total_count: frames::ITEMS,
            kind: kind.into(),
            lease: Some(frames::span(self.setting.lease)),
            heartbeat_interval: Some(frames::span(self.setting.interval)),
            ..Registered::default()
        }))
        .await
    }

    /// Welcomes the worker and agrees to all its jobs.
    pub(crate) async fn accept(&mut self) -> Played {
        self.welcome().await?;
        self.registers().await?;
        for job in self.setting.jobs {
            self.register(job).await?;
        }
        Ok(())
    }

    /// The next stream, up to where its jobs are registered.
    pub(crate) async fn attach(&mut self) -> Played<Hello> {
        let hello = self.hello().await?;
        self.accept().await?;
        Ok(hello)
    }

    /// A leave with nothing left in flight.
    pub(crate) async fn farewell(&mut self) -> Played {
        self.asks_to_drain().await?;
        self.say(frames::draining()).await?;
        self.says_goodbye().await?;
        self.say(frames::goodbye_ack()).await
    }

    pub(crate) async fn asks_to_drain(&mut self) -> Played {
        self.frame(0, "DrainRequest", |frame| matches!(frame, Said::DrainRequest(_)).then_some(())).await
    }

    pub(crate) async fn says_goodbye(&mut self) -> Played {
        self.frame(0, "Goodbye", |frame| matches!(frame, Said::Goodbye(_)).then_some(())).await
    }

    /// Whether it has said Goodbye on the stream of now.
    pub(crate) fn said_goodbye(&mut self) -> bool {
        !self.frames(0, |frame| matches!(frame, Said::Goodbye(_)).then_some(())).is_empty()
    }
}
