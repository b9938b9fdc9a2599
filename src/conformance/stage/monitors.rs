//! What is looked at in every script, whatever it is about.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{Hello, RunRef};

use crate::coordinator::{Stream, frames};
use crate::event::{TimedEvent, WorkerEvent};

/// The secret that every script's worker has.
pub(crate) const CREDENTIAL: &str = "conformance-secret";
/// Two connections are heard by two tasks: what is heard so little later may have been sent before.
const CROSSING: Duration = Duration::from_secs(1);

/// The rules that are looked at in every script; the last one by the judge of `rosterd verify`.
pub(crate) const IN_EVERY_SCRIPT: &[&str] = &[
    "LINK-1", "LINK-3", "LINK-4", "LINK-5", "LINK-8", "LINK-29", "LEASE-3", "REPORT-1", "REPORT-6", "RUN-32",
];

type ObservedRun = (String, u32, u64);

#[derive(Default)]
struct Conversation {
    hello_at: Option<Duration>,
    closed_at: Option<Duration>,
    welcomed: bool,
    credits: usize,
    beats: u64,
    unacknowledged: BTreeSet<ObservedRun>,
}

#[derive(Default)]
pub(crate) struct Monitors {
    streams: BTreeMap<usize, Conversation>,
    last_number: u64,
    identity: (String, String),
    slots: u32,
    /// Rules that something was to be seen of.
    pub(crate) seen: BTreeSet<&'static str>,
    pub(crate) breaches: Vec<(&'static str, String)>,
}

impl Monitors {
    pub(crate) fn new(slots: u32) -> Self {
        Self { slots, ..Self::default() }
    }

    pub(crate) fn observe(&mut self, entry: &TimedEvent) {
        match &entry.event {
            WorkerEvent::Opened(stream) => self.opened(stream),
            WorkerEvent::Closed(number, _) => {
                self.of(*number).closed_at = Some(entry.at);
                self.crossed(*number, entry.at);
            }
            WorkerEvent::Frame(number, Some(frame)) => self.heard(*number, frame, entry.at),
            WorkerEvent::Frame(number, None) => {
                self.breach("LINK-3", format!("stream {number}: a frame that the protocol does not have"));
            }
            _ => {}
        }
    }

    /// What the script says.
    pub(crate) fn says(&mut self, number: usize, frame: &Frame) {
        match frame {
            Frame::Welcome(welcome) => {
                let credits = welcome.max_unacknowledged_reports.max(1) as usize;
                let of = self.of(number);
                if !of.welcomed {
                    (of.welcomed, of.credits) = (true, credits);
                    self.identity = (welcome.worker_id.clone(), welcome.resume_key.clone());
                }
            }
            Frame::ReportAck(ack) => {
                if let Some(run) = &ack.run {
                    self.of(number).unacknowledged.remove(&id(run));
                }
            }
            _ => {}
        }
    }

    /// Nothing more comes.
    pub(crate) fn close(&mut self, now: Duration) {
        let open: Vec<usize> =
            self.streams.iter().filter(|(_, of)| of.closed_at.is_none()).map(|(number, _)| *number).collect();
        for number in open {
            self.crossed(number, now);
        }
    }

    fn of(&mut self, number: usize) -> &mut Conversation {
        self.streams.entry(number).or_default()
    }

    fn breach(&mut self, rule: &'static str, why: String) {
        self.seen.insert(rule);
        self.breaches.push((rule, why));
    }

    fn require(&mut self, rule: &'static str, holds: bool, why: impl FnOnce() -> String) {
        self.seen.insert(rule);
        if !holds {
            self.breaches.push((rule, why()));
        }
    }

    fn opened(&mut self, stream: &Stream) {
        self.of(stream.number);
        let wanted = format!("Bearer {CREDENTIAL}");
        self.require("LINK-29", stream.authorization.as_ref() == Some(&wanted), || {
            format!("stream {}: authorization is {:?}", stream.number, stream.authorization)
        });
    }

    /// A stream was closed, or never is: was the next one's Hello before?
    fn crossed(&mut self, number: usize, at: Duration) {
        let next = self.streams.range(number + 1..).find_map(|(next, of)| Some((*next, of.hello_at?)));
        if let Some((next, hello)) = next {
            self.require("LINK-1", at < hello + CROSSING, || {
                format!(
                    "stream {number} was still open {:?} after the Hello of stream {next}",
                    at.saturating_sub(hello)
                )
            });
        }
    }

    fn heard(&mut self, number: usize, frame: &Said, at: Duration) {
        let of = self.of(number);
        let (first, welcomed) = (of.hello_at.is_none(), of.welcomed);
        if first || !welcomed {
            let is_hello = matches!(frame, Said::Hello(_));
            self.require("LINK-3", is_hello == first, || {
                format!("stream {number}: {} before Welcome", frames::show_said(frame))
            });
        }
        match frame {
            Said::Hello(hello) => {
                self.of(number).hello_at = Some(at);
                self.greeted(number, hello);
            }
            Said::Heartbeat(beat) => {
                let of = self.of(number);
                of.beats += 1;
                let wanted = of.beats;
                self.require("LEASE-3", beat.sequence == wanted, || {
                    format!("stream {number}: heartbeat {} instead of {wanted}", beat.sequence)
                });
            }
            Said::RunCompleted(report) => {
                let Some(run) = &report.run else { return };
                let of = self.of(number);
                let new = of.unacknowledged.insert(id(run));
                let (under_way, credits) = (of.unacknowledged.len(), of.credits);
                self.require("REPORT-1", new, || {
                    format!("stream {number}: the report of {} came twice", frames::name(run))
                });
                self.require("REPORT-6", under_way <= credits, || {
                    format!("stream {number}: {under_way} reports under way, and {credits} are allowed")
                });
            }
            _ => {}
        }
    }

    fn greeted(&mut self, number: usize, hello: &Hello) {
        let last = std::mem::replace(&mut self.last_number, hello.stream_number);
        self.require("LINK-4", hello.stream_number > last, || {
            format!("Hello of stream_number {} after {last}", hello.stream_number)
        });
        let (id, key) = self.identity.clone();
        self.require("LINK-5", (&hello.worker_id, &hello.resume_key) == (&id, &key), || {
            format!(
                "Hello gives back {:?}, {:?} instead of {id:?}, {key:?}",
                hello.worker_id, hello.resume_key
            )
        });
        let slots = self.slots;
        let says = hello.slots == slots
            && !hello.address.is_empty()
            && !hello.client.is_empty()
            && hello.sent_at.is_some()
            && hello.holds_triggers;
        self.require("LINK-8", says, || {
            format!(
                "Hello of stream {number} says slots {} (not {slots}), address {:?}, client {:?}, sent_at {:?}, \
                 holds_triggers {}",
                hello.slots, hello.address, hello.client, hello.sent_at, hello.holds_triggers
            )
        });
        if self.streams.range(..number).any(|(_, of)| of.closed_at.is_some()) {
            self.seen.insert("LINK-1");
        }
    }
}

fn id(run: &RunRef) -> ObservedRun {
    (run.job.clone(), run.item, run.token)
}
