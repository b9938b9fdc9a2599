//! Workers for rosterd.
//!
//! rosterd splits every job into items, gives each item to exactly one live worker and tells that worker when to run
//! it. A worker says which jobs it works for, and how:
//!
//! ```no_run
//! use rosterd_client::{Run, Worker};
//!
//! #[tokio::main]
//! async fn main() -> rosterd_client::Result<()> {
//!     Worker::connect("http://localhost:7700")
//!         .slots(8)
//!         .job("hello", |run: Run| async move {
//!             println!("item {} of {}: {}", run.item(), run.total(), run.item_parameter());
//!             Ok(())
//!         })
//!         .run()
//!         .await
//! }
//! ```
//!
//! Four nouns: a [`Worker`] with its [`Options`] works for [`Job`]s, each execution is a [`Run`]. Connection,
//! heartbeats, lease, retries and the clean leave are the library's; a handler only has to end soon when
//! [`Run::cancelled`] says so.
//!
//! # Embedding and testing
//!
//! [`Worker::drive`] runs the same conversation in place over any [`Connector`] and [`Clock`]: in-memory channels and
//! tokio's paused time make a worker part of a deterministic simulation.
#![warn(missing_docs)]

pub mod access;
mod clock;
mod config;
mod connect;
mod driver;
mod error;
pub mod fence;
mod health;
mod hooks;
mod job;
mod machine;
#[cfg(not(feature = "mutants"))]
#[allow(unreachable_pub, reason = "with the feature others switch them")]
mod mutants;
#[cfg(feature = "mutants")]
pub mod mutants;
mod options;
mod run;
mod signals;
pub mod testing;
mod trace;
mod user;
mod worker;

#[cfg(all(test, in_repository))]
mod fresh {
    //! The protocol that this package carries is the project's.

    use std::path::{Path, PathBuf};

    fn both(name: &str) -> (PathBuf, PathBuf) {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = |root: &str| here.join(root).join("rosterd/v1").join(name);
        (file("proto"), file("../../proto"))
    }

    const FILES: [&str; 2] = ["types.proto", "worker.proto"];

    #[test]
    fn the_protocol_is_the_projects() {
        for (copy, original) in FILES.map(both) {
            let read = |path| std::fs::read_to_string(path).unwrap_or_default();
            assert!(
                read(&copy) == read(&original),
                "{} is out of date; run: cargo xtask docs",
                copy.display()
            );
        }
    }

    #[test]
    #[ignore = "writes clients/rust/proto"]
    fn write_the_guides_page_of_the_protocol() {
        for (copy, original) in FILES.map(both) {
            std::fs::copy(original, copy).unwrap();
        }
    }
}

/// The frames of the worker protocol, for connectors of your own.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod proto {
    tonic::include_proto!("rosterd.v1");
}

pub use access::Access;
pub use clock::{BootClock, Clock, TokioClock};
pub use config::{Gap, Guarantee, JobConfig, JobFile, OnTimeout, Retries, Strategy, TooLate};
pub use connect::{Connector, LinkError, TonicConnector, Wire};
pub use error::{Error, Failure, Result};
pub use hooks::{Hooks, How, RunEnd};
pub use job::{Fire, Job, Outcome, Output};
pub use options::{OnRefused, Options};
pub use run::{Run, Source};
pub use worker::Worker;

pub use tokio_util::sync::CancellationToken;
