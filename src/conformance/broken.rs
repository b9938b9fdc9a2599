//! Why a script ended before its end.

use std::fmt;

/// What was expected, and what was there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

pub(crate) type Played<T = ()> = Result<T, Broken>;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What must hold now.
pub(crate) fn ensure(holds: bool, why: impl FnOnce() -> String) -> Played {
    if holds { Ok(()) } else { Err(Broken(why())) }
}
