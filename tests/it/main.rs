//! Real processes and real connections: coordinators, workers and people, and the effect on runs when any of them dies,
//! freezes, is cut off or gets nonsense.
//!
//! A worker process is this binary once more (`worker`); `judge` decides from the workers' log whether the promises
//! were kept.

#![allow(unreachable_pub, reason = "a test binary has no users")]
#![allow(clippy::disallowed_methods, reason = "what is tried here is real time")]

mod access;
mod accounts;
mod alarms;
mod backup;
mod barrier;
#[path = "../support/certificates.rs"]
mod certificates;
mod coordinator;
mod crash;
mod disk;
mod features;
mod fields;
mod forgotten;
mod forms;
mod guarantee;
mod harness;
mod hostile;
#[path = "../support/http.rs"]
mod http;
mod input;
mod judge;
mod kinds;
mod log;
mod machines;
mod metrics;
mod mutants;
mod net;
mod oidc;
mod openapi;
mod operate;
mod overdue;
mod panics;
mod process;
mod programs;
#[path = "../support/pulse.rs"]
mod pulse;
mod python;
mod raw;
mod recorder;
mod rest;
mod restored;
mod rights;
mod seen;
mod set_back;
mod slow;
mod storm;
mod told;
mod traces;
mod unattended;
mod verify;
mod wordcount;
mod worker;
