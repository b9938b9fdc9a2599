//! On which machines the workers of a grant may be: addresses, in which `*` stands for any characters.

use std::fmt;
use std::sync::Arc;

use rosterd_domain::id::ServerAddress;

use crate::jobs::{MOST, SHOWN, matches};

/// The machines of a grant; without patterns, any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machines(Arc<[String]>);

impl Machines {
    /// No restriction.
    pub fn any() -> Self {
        Self::default()
    }

    /// From patterns; what is wrong with one, and what to write.
    pub fn parse<T: Into<String>>(patterns: impl IntoIterator<Item = T>) -> Result<Self, String> {
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        if patterns.len() > MOST {
            return Err(format!(
                "{} patterns are more than {MOST}: use * for several machines",
                patterns.len()
            ));
        }
        for pattern in &patterns {
            // With a digit in its place, each star leaves an address.
            if ServerAddress::new(pattern.replace('*', "1")).is_err() {
                let shown: String = pattern.chars().take(SHOWN).collect();
                return Err(format!(
                    "{shown:?} is not an address or pattern: write for example 10.0.7.3 or 10.0.7.*"
                ));
            }
        }
        Ok(Self(patterns.into()))
    }

    /// Whether the address is among them.
    pub fn have(&self, address: &ServerAddress) -> bool {
        let is = |pattern: &String| matches(pattern.as_bytes(), address.as_str().as_bytes());
        self.0.is_empty() || self.0.iter().any(is)
    }
}

impl fmt::Display for Machines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&if self.0.is_empty() { "*".to_owned() } else { self.0.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_one_of_the_patterns() {
        let address = |text: &str| ServerAddress::new(text).unwrap();
        let some = Machines::parse(["10.0.7.*", "fe80::1"]).unwrap();
        assert!(some.have(&address("10.0.7.3")) && some.have(&address("fe80::1")));
        assert!(!some.have(&address("10.0.8.3")) && Machines::any().have(&address("10.0.8.3")));
        for wrong in ["", "a/b", "a b"] {
            assert!(Machines::parse([wrong]).unwrap_err().contains("write for example 10.0.7.3"), "{wrong}");
        }
    }
}
