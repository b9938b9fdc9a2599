//! The rules by tables, the book by scenes and at random.

mod book;
mod handler;
mod rules;

use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::time::Time;

use super::facts::{Item, Job};
use super::settings::{Form, Receiver, Text};

/// The start of all scenes: 05:20 UTC.
pub(crate) const BASE: Time = Time::from_seconds(1_795_584_000);

pub(crate) fn at(seconds: u64) -> Time {
    BASE.plus(Duration::from_secs(seconds))
}

pub(crate) fn name(text: &str) -> JobName {
    JobName::new(text).unwrap()
}

/// A job in service with nothing wrong.
pub(crate) fn job(items: u32) -> Job {
    let item = |item| Item { item, waits: None, unfinished: None, failed: 0, succeeded: 0, last: None };
    Job {
        name: name("report"),
        speaks: true,
        in_service: true,
        has_worker: true,
        zone: "UTC".into(),
        items: (0..items).map(item).collect(),
        crashed: 0,
        missed: 0,
        handler: None,
    }
}

pub(crate) fn receiver(name: &str) -> Receiver {
    let url = Text::Plain("http://127.0.0.1:1/".into());
    Receiver { name: name.into(), form: Form::Webhook { url, secret: None, bearer: None } }
}
