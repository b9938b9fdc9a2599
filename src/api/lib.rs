//! The edge: gRPC, REST and HTTP on one port. It parses, limits and answers; it decides nothing about jobs.
//!
//! It depends on the coordinator only through [`backend::Backend`]. Proto types stay within `grpc`.

pub mod access;
pub mod alarms;
mod audit;
pub mod backend;
pub mod backup;
pub mod connection;
pub mod console;
pub mod edge;
mod explain;
mod fires;
pub mod grpc;
pub mod history;
pub mod http;
mod interrupts;
mod known;
pub mod layers;
mod link;
pub mod listen;
pub mod monitor;
pub mod operator;
mod peer;
pub mod rest;
mod rights;
mod seldom;
pub mod tls;
mod traces;
