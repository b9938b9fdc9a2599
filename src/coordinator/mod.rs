//! The shell around the domain: it alone awaits and owns time.

pub mod handle;
