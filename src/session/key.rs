//! The key that a worker shows to come back under its identity. Only its digest is stored.

use sha2::{Digest, Sha256};

/// What is stored of a key.
pub fn digest(key: &str) -> String {
    hex::encode(Sha256::digest(key))
}

/// Whether `shown` is the key whose digest is `stored`; takes the same time for any wrong key.
pub fn matches(stored: &str, shown: &str) -> bool {
    let shown = digest(shown);
    stored.len() == shown.len()
        && stored.bytes().zip(shown.bytes()).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_itself_matches_its_digest() {
        let stored = digest("secret");
        assert!(matches(&stored, "secret"));
        assert!(!matches(&stored, "Secret") && !matches(&stored, "") && !matches("", "secret"));
    }
}
