//! The shell around the domain: it alone awaits and owns time.
//!
//! [`node::Node`] is the machine, without I/O; [`driver`] carries its effects out; [`handle::Handle`] is what
//! the API layers see. Nothing here spells a znode or a proto message.

mod admission;
mod advance;
mod attach;
mod background;
mod barrier;
mod batching;
mod calendar;
mod change;
mod command;
mod commit;
mod dispatch;
mod drain;
pub mod driver;
pub mod event;
mod explained;
mod failure_detector;
mod given_up;
mod guarantee;
pub mod handle;
mod happening;
mod inbox;
mod job;
mod last_fires;
mod lead;
mod lead_time;
mod leave;
mod look;
pub mod member;
pub mod node;
mod notes;
mod operate;
mod overdue;
mod owners;
mod presence;
mod progress;
mod quota;
mod reconcile;
mod register;
mod release;
mod rights;
mod run_queue;
mod session_proof;
pub mod settings;
pub mod standing;
mod survey;
mod switches;
mod tell;
mod timers;
pub mod tracer;
mod unattended;
mod views;
mod waitlist;
mod worker;
