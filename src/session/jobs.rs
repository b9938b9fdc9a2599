//! Which jobs a grant is for: names, in which `*` stands for any characters.

use std::fmt;
use std::sync::Arc;

use rosterd_domain::id::JobName;

/// Most patterns of a grant.
pub(crate) const MOST: usize = 256;
/// So much of an invalid pattern is shown.
pub(crate) const SHOWN: usize = 128;

/// The jobs of a grant; without patterns, all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobScope(Arc<[String]>);

impl JobScope {
    /// No restriction.
    pub fn all() -> Self {
        Self::default()
    }

    /// From patterns; what is wrong with one, and what to write.
    pub fn parse<T: Into<String>>(patterns: impl IntoIterator<Item = T>) -> Result<Self, String> {
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        if patterns.len() > MOST {
            return Err(format!("{} patterns are more than {MOST}: use * for several jobs", patterns.len()));
        }
        for pattern in &patterns {
            // With a letter in its place, each star leaves a name.
            if JobName::new(pattern.replace('*', "x")).is_err() {
                let shown: String = pattern.chars().take(SHOWN).collect();
                return Err(format!(
                    "{shown:?} is not a job name or pattern: write for example billing or billing-*"
                ));
            }
        }
        Ok(Self(patterns.into()))
    }

    /// Whether all jobs are among them.
    pub fn are_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the job is among them.
    pub fn have(&self, job: &JobName) -> bool {
        self.are_all() || self.0.iter().any(|pattern| matches(pattern.as_bytes(), job.as_str().as_bytes()))
    }

    /// The patterns.
    pub fn patterns(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for JobScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&if self.are_all() { "*".to_owned() } else { self.0.join(", ") })
    }
}

/// Goes back to the last star at most: no pattern takes longer than its length times the name's.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                n = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_nothing_else_does() {
        let have =
            |pattern: &str, job: &str| JobScope::parse([pattern]).unwrap().have(&JobName::new(job).unwrap());
        for (pattern, job) in [
            ("a", "a"),
            ("*", "a"),
            ("a*", "a"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*b*c", "aXbYc"),
            ("*b*", "abc"),
        ] {
            assert!(have(pattern, job), "{pattern} {job}");
        }
        for (pattern, job) in
            [("a", "ab"), ("a", "A"), ("a*", "ba"), ("a.c", "abc"), ("a*b", "abc"), ("*ab", "aab1")]
        {
            assert!(!have(pattern, job), "{pattern} {job}");
        }
        let hard = JobScope::parse(["*a".repeat(60) + "b"]).unwrap();
        assert!(!hard.have(&JobName::new("a".repeat(128)).unwrap()));
    }

    #[test]
    fn a_pattern_that_can_match_no_job_is_refused() {
        for wrong in ["", "a/b", "a b", "a?"] {
            assert!(JobScope::parse([wrong]).unwrap_err().contains("write for example"), "{wrong}");
        }
        assert!(JobScope::all().have(&JobName::new("any").unwrap()));
    }
}
