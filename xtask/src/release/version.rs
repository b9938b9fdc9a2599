//! Versions as semver.org orders them, and as Debian writes them. Registries ignore build metadata, so it is not
//! supported.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};

/// `1.2.3`, or `1.2.3-rc.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    numbers: [u64; 3],
    /// The part after the `-`; empty: it is the release itself.
    before: Vec<Part>,
}

/// Numbers are lower than words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Version {
    /// In Debian's order: a pre-release has a `~`.
    pub(super) fn debian(&self) -> String {
        self.to_string().replacen('-', "~", 1)
    }
}

impl FromStr for Version {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || format!("invalid version {text:?}: write 1.2.3, or 1.2.3-rc.1");
        let (release, before) = match text.split_once('-') {
            Some((release, before)) => (release, before.split('.').collect()),
            None => (text, Vec::new()),
        };
        let numbers: Vec<u64> = release.split('.').map(number).collect::<Option<_>>().with_context(wrong)?;
        let numbers = <[u64; 3]>::try_from(numbers).ok().with_context(wrong)?;
        if !before.iter().all(|part| is_part(part)) {
            bail!(wrong());
        }
        let part = |part: &str| number(part).map_or_else(|| Part::Word(part.to_owned()), Part::Number);
        Ok(Self { numbers, before: before.into_iter().map(part).collect() })
    }
}

/// Without a leading zero, and without a sign.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

fn is_part(text: &str) -> bool {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    !text.is_empty() && plain && (!digits || number(text).is_some())
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let released = |version: &Self| version.before.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then(released(self).cmp(&released(other)))
            .then_with(|| self.before.cmp(&other.before))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (n, part) in self.before.iter().enumerate() {
            f.write_str(if n == 0 { "-" } else { "." })?;
            match part {
                Part::Number(number) => write!(f, "{number}")?,
                Part::Word(word) => f.write_str(word)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_ordered_as_semver_org_says() {
        // Its own example, and versions that text would order differently.
        let rising = [
            "0.9.9",
            "0.10.0",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.1",
            "1.2.0",
            "2.0.0-0",
            "10.0.0",
        ];
        for pair in rising.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
            assert_eq!(version(pair[0]).to_string(), pair[0]);
        }
        assert_eq!(version("1.2.3"), version("1.2.3"));
    }

    #[test]
    fn what_is_not_a_version_is_refused() {
        let wrong = [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "v1.2.3",
            "1.2.x",
            "01.2.3",
            "1.2.3-",
            "1.2.3-a..b",
            "1.2.3-01",
            "1.2.3+b",
            "1.2.3 ",
            "+1.2.3",
            "1.2.3-é",
        ];
        for text in wrong {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn debian_takes_a_release_candidate_for_older_than_its_release() {
        assert_eq!(version("1.2.0-rc.1").debian(), "1.2.0~rc.1");
        assert_eq!(version("1.2.0").debian(), "1.2.0");
    }
}
