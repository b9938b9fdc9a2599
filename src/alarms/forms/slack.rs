//! An incoming webhook of Slack's: a text for notifications, and blocks.

use serde_json::{Value, json};

use super::parts::{NAMED, fit};
use crate::kind::Severity;
use crate::letter::{Alarm, Letter};

/// Most characters of a header, and of a section's text.
const HEADER: usize = 150;
const SECTION: usize = 3000;

/// What Slack's mrkdwn takes for control characters.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn line(letter: &Letter, alarm: &Alarm) -> String {
    let sign = match (alarm.resolved_at, alarm.severity) {
        (Some(_), _) => ":white_check_mark:",
        (None, Severity::Critical | Severity::Error) => ":red_circle:",
        (None, Severity::Warning) => ":large_orange_circle:",
        (None, Severity::Info) => ":large_blue_circle:",
    };
    let what = escaped(&alarm.text);
    let what = match letter.href(alarm) {
        Some(href) => format!("<{href}|{what}>"),
        None => what,
    };
    match alarm.resolved_at {
        None => format!("{sign} *{}* {what} since {}", alarm.severity, alarm.since),
        Some(at) => format!("{sign} resolved: {what} at {at}"),
    }
}

pub(super) fn body(letter: &Letter) -> Value {
    let title: String = letter.title().chars().take(HEADER).collect();
    let mut lines: Vec<String> = letter.alarms().take(NAMED).map(|alarm| line(letter, alarm)).collect();
    let rest = (letter.raised.len() + letter.resolved.len()).saturating_sub(NAMED) + letter.more;
    if rest > 0 {
        lines.push(format!("and {rest} more"));
    }
    let mut blocks = vec![json!({ "type": "header", "text": { "type": "plain_text", "text": title } })];
    if !lines.is_empty() {
        let text = fit(&lines, "\n", SECTION);
        blocks.push(json!({ "type": "section", "text": { "type": "mrkdwn", "text": text } }));
    }
    let from = format!("{} · {}", escaped(&letter.namespace), escaped(&letter.coordinator));
    blocks.push(json!({ "type": "context", "elements": [{ "type": "mrkdwn", "text": from }] }));
    json!({ "text": escaped(&title), "blocks": blocks })
}
