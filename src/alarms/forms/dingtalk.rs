//! A custom robot of DingTalk's: markdown, signed where the robot asks for it.

use base64::Engine as _;
use rosterd_domain::time::Time;
use serde_json::{Value, json};

use super::parts::{NAMED, fit, hmac_sha256};
use crate::letter::{Letter, encoded};

/// A message has at most 20 000 bytes; the rest of it needs some.
const MOST: usize = 18_000;

/// `timestamp` in milliseconds, and `sign`: Base64 of the HMAC-SHA256, by the secret, of `timestamp\nsecret`.
pub(super) fn signed(url: &str, secret: &str, now: Time) -> String {
    let signature = hmac_sha256(secret, &format!("{}\n{secret}", now.0));
    let signature = base64::engine::general_purpose::STANDARD.encode(signature);
    let between = if url.contains('?') { '&' } else { '?' };
    format!("{url}{between}timestamp={}&sign={}", now.0, encoded(&signature))
}

pub(super) fn body(letter: &Letter, keyword: Option<&str>) -> Value {
    let title = letter.title();
    let mut lines = vec![format!("### {title}")];
    lines.extend(letter.lines(NAMED).into_iter().map(|line| format!("- {line}")));
    // The robot refuses what its word is not in.
    if let Some(word) = keyword.filter(|word| !title.contains(*word)) {
        lines.insert(1, word.to_owned());
    }
    json!({ "msgtype": "markdown", "markdown": { "title": title, "text": fit(&lines, "\n\n", MOST) } })
}
