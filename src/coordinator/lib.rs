//! The shell around the domain: it alone awaits and owns time.
//!
//! [`node::Node`] is the machine, without I/O; [`driver`] carries its effects out; [`handle::Handle`] is what
//! the API layers see. Nothing here spells a znode or a proto message.

mod advance;
mod agenda;
mod ahead;
mod arrivals;
mod attach;
mod barrier;
mod calendar;
mod change;
mod command;
mod commit;
mod dismiss;
mod dispatch;
mod drain;
pub mod driver;
pub mod event;
mod explained;
mod gather;
mod given_up;
mod guarantee;
pub mod handle;
mod happening;
mod house;
mod inbox;
mod job;
mod last_fires;
mod lead;
mod leave;
mod life;
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
mod rights;
pub mod settings;
pub mod standing;
mod survey;
mod switches;
mod tell;
mod timers;
pub mod tracer;
mod unattended;
mod verdict;
mod views;
mod waitlist;
mod worker;
