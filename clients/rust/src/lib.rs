//! Workers for rosterd.
//!
//! rosterd splits every job into items, assigns each item to exactly one live worker and tells that worker when to run
//! it. A worker declares its jobs, and their handlers:
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
//! Four nouns: a [`Worker`] with its [`Options`] works for [`Job`]s, each execution is a [`Run`]. The library does
//! connection, heartbeats, lease, retries and the clean leave; a handler only has to end soon after [`Run::cancelled`].
//!
//! # Tests
//!
//! [`testing`] calls handlers without a coordinator.
//!
//! # Features
//!
//! | | |
//! | --- | --- |
//! | `tls-aws-lc` (default) | TLS by rustls with aws-lc, and the authorities that the system trusts |
//! | `tls-ring` | the same with ring: turn the defaults off (`default-features = false`) |
//! | `opentelemetry` | handlers run within their fire's trace, by the API of opentelemetry 0.33 |
//! | `embedding` | the module `embedding` and `Worker::drive`: a worker in a simulation, or over another network. Not covered by semantic versioning |
//!
//! If both providers are on, ring is used; one that the program has installed as rustls's default overrides either.
//! Without TLS (`default-features = false` and neither provider) a worker only connects to plain addresses: an
//! `https://` address, `ROSTERD_CA` or a client certificate ends it with [`Error::Options`], which names the feature to
//! turn on.
//!
//! # What versions promise
//!
//! Besides those of the standard library, the public types are those of this crate, `bytes::Bytes` (version 1) and
//! [`CancellationToken`] of tokio-util 0.7: a release that moves to an incompatible version of these is a breaking one.
//! Structs and enums that may grow are `#[non_exhaustive]`. tonic, prost and rustls may change with any release; tokio
//! stays at version 1. Not covered are the features `embedding`, `mutants` and those that begin with `_`, and the
//! version of opentelemetry, which has to be that of the program's tracer provider.
#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "embedding"), allow(unreachable_pub, reason = "the feature makes them public"))]

mod access;
mod clock;
mod config;
mod connect;
mod driver;
#[cfg(feature = "embedding")]
pub mod embedding;
mod error;
pub mod fence;
mod gate;
mod health;
mod hooks;
mod job;
mod link_error;
mod machine;
#[cfg(not(feature = "mutants"))]
#[allow(unreachable_pub, reason = "with the feature others switch them")]
mod mutants;
#[cfg(feature = "mutants")]
#[doc(hidden)]
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
    //! The protocol in this package equals the project's.

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

/// The frames of the worker protocol. Much of the generated code is only for connectors of others.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::pedantic)]
mod proto {
    tonic::include_proto!("rosterd.v1");
}

pub use config::{Gap, Guarantee, JobConfig, JobFile, OnTimeout, Retries, Strategy, TooLate};
pub use error::{Error, Failure, Result};
pub use hooks::{Hooks, How, RunEnd};
pub use job::{Fire, Job, Outcome, Output};
pub use link_error::LinkError;
pub use options::{OnRefused, Options};
pub use run::{Run, Source};
pub use worker::Worker;

pub use tokio_util::sync::CancellationToken;
