//! JSON of our own.
use rosterd_domain::time::Time;
use serde_json::{Value, json};

use super::parts::hmac_sha256;
use crate::letter::{Alarm, Letter};

/// `t=<milliseconds since 1970>,v1=<hexadecimal HMAC-SHA256 of "<t>.<body>">`.
pub(super) const SIGNATURE: &str = "x-rosterd-signature";

pub(super) fn body(letter: &Letter) -> Value {
    let shown = |alarms: &[Alarm]| -> Vec<Value> {
        let one = |alarm: &Alarm| {
            let mut value = serde_json::to_value(alarm).unwrap_or_default();
            if let Some(fields) = value.as_object_mut() {
                fields.remove("receivers");
                if let Some(href) = letter.href(alarm) {
                    fields.insert("href".to_owned(), href.into());
                }
            }
            value
        };
        alarms.iter().map(one).collect()
    };
    json!({
        "version": 1,
        "test": letter.test,
        "namespace": letter.namespace,
        "coordinator": letter.coordinator,
        "at": letter.at,
        "title": letter.title(),
        "raised": shown(&letter.raised),
        "resolved": shown(&letter.resolved),
        "more": letter.more,
    })
}

pub(super) fn signature(secret: &str, body: &str, now: Time) -> String {
    let signature = hmac_sha256(secret, &format!("{}.{body}", now.0));
    format!("t={},v1={}", now.0, hex::encode(signature))
}
