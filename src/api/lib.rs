//! The edge: gRPC, REST and HTTP on one port. It parses, limits and answers; it decides nothing about jobs.
//!
//! Of the coordinator it sees [`backend::Backend`] alone. Proto types stop at `grpc`.

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
mod known;
pub mod layers;
mod link;
pub mod listen;
pub mod monitor;
pub mod operator;
pub mod rest;
mod rights;
mod seldom;
pub mod tls;
mod traces;
