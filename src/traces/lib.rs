//! Traces: what becomes of a fire, from its scheduled time through the code of workers, as spans of OpenTelemetry.
//!
//! [`spans`] makes spans of what the coordinator's driver tells, [`export`] sends them to a collector by OTLP, in batches, from a
//! queue that is bounded: what finds no room in it is dropped and counted. So nothing here ever holds a fire up, and a
//! collector that is slow or gone costs spans alone. Nothing is decided from a trace. Made by the composition root where an
//! endpoint is configured; without one none of it exists.
//!
//! ```text
//! fire JOB                 from the scheduled time until the starts are on the store; one on each coordinator that starts items
//! ├─ commit                the transaction of the starts
//! └─ run JOB               from there until its end is on the store; the parent of what a worker's user code does
//!    ├─ dispatch           until its trigger is in the worker's stream; again where it is sent again
//!    └─ report             from the worker's report until its end is on the store
//! ```

pub mod export;
pub mod spans;

use rosterd_session::trace::{SpanId, TraceId};

/// One span, when it is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its trace.
    pub trace: TraceId,
    /// Itself.
    pub id: SpanId,
    /// What it is part of; none: a root.
    pub parent: Option<SpanId>,
    /// What it is.
    pub name: String,
    /// Whether what follows from it goes on in another process.
    pub goes_on_elsewhere: bool,
    /// Nanoseconds since 1970.
    pub from: u64,
    /// Nanoseconds since 1970; never before `from`.
    pub to: u64,
    /// Whose, why and where.
    pub attributes: Vec<(&'static str, Value)>,
    /// What went wrong.
    pub failure: Option<String>,
}

/// What an attribute says.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}
