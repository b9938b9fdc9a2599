//! The command line as a user sees it: its forms, its output, its exit codes, and programs as workers.

#![allow(clippy::disallowed_methods, reason = "tests measure, and are told to write golden files")]

mod admin;
mod args;
mod binary;
mod config;
mod coordinator;
mod credentials;
mod dev;
mod doctor;
mod exec;
mod guard;
mod moving;
mod offline;
mod online;
#[path = "../support/pulse.rs"]
mod pulse;
mod table;
mod verify;
