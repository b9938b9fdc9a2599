//! Scenes: small worlds in which one thing happens, written by hand.

mod found;
mod leadership;
pub mod races;
mod regressions;
mod smoke;
mod stability;
mod systematic;
