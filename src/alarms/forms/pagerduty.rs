//! PagerDuty's Events API v2: an event for each alarm, whose key says which it resolves.
use serde_json::{Value, json};

use crate::letter::{Alarm, Letter};

/// Longest key, and longest summary.
const KEY: usize = 255;
const SUMMARY: usize = 1024;

/// The same from every coordinator of the namespace.
fn dedup_key(letter: &Letter, alarm: &Alarm) -> String {
    let key = format!("rosterd/{}/{}", letter.namespace, alarm.key);
    if key.len() <= KEY {
        return key;
    }
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
    format!("rosterd/sha256:{}", hex::encode(digest))
}

/// Of the first alarm: a letter to PagerDuty has one.
pub(super) fn body(letter: &Letter, routing_key: &str) -> Value {
    let Some(alarm) = letter.alarms().next() else { return json!({}) };
    let key = dedup_key(letter, alarm);
    if alarm.resolved_at.is_some() {
        return json!({ "routing_key": routing_key, "event_action": "resolve", "dedup_key": key });
    }
    let summary: String = alarm.text.chars().take(SUMMARY).collect();
    let mut event = json!({
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": key,
        "client": "rosterd",
        "payload": {
            "summary": summary,
            "source": letter.coordinator,
            "severity": alarm.severity.as_str(),
            "timestamp": alarm.since,
            "component": alarm.job_name.as_ref().map_or("coordinator", |job| job.as_str()),
            "group": letter.namespace,
            "class": alarm.alarm.as_str(),
            "custom_details": { "rule": alarm.rule, "raised_at": alarm.raised_at },
        },
    });
    if let Some(href) = letter.href(alarm) {
        event["client_url"] = href.clone().into();
        event["links"] = json!([{ "href": href, "text": "rosterd" }]);
    }
    event
}
