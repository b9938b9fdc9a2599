//! What this process sends to other servers: an HTTP or HTTPS request and its answer, or a mail, each bounded in bytes and time.
//!
//! One request, one connection: what is sent here is rare, and nothing is kept open between. Redirects are not followed: they
//! are answers like any other, so nothing that was meant for one server goes to another. No proxy, no cookies, no retries:
//! whoever calls decides whether to try again. Errors name the server and never the path or the query, which may be secrets.
//! Called by what tells of alarms and by logins at an identity provider; knows nothing of either.

mod dial;
pub mod http;
pub mod smtp;
mod trust;

pub use dial::OutboundError;
pub use trust::{Trust, TrustError};
