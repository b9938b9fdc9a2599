//! The format of each receiver: pure functions from a letter to a request or a mail, and from an answer to whether it was
//! taken. Each follows its vendor's public documentation; golden files hold what is sent.

mod dingtalk;
pub mod email;
mod pagerduty;
mod parts;
mod slack;
mod webhook;
mod wecom;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use rosterd_domain::time::Time;
use serde_json::Value;

use super::letter::Letter;

/// A form with its secrets read.
pub enum Ready {
    #[allow(missing_docs)]
    Webhook { url: String, secret: Option<String>, bearer: Option<String> },
    #[allow(missing_docs)]
    Slack { url: String },
    #[allow(missing_docs)]
    DingTalk { url: String, secret: Option<String>, keyword: Option<String> },
    #[allow(missing_docs)]
    WeCom { url: String },
    #[allow(missing_docs)]
    PagerDuty { url: String, routing_key: String },
}

impl Ready {
    /// What is sent.
    pub fn request(&self, letter: &Letter, now: Time) -> Result<Request<Bytes>, String> {
        match self {
            Self::Webhook { url, secret, bearer } => {
                let body = webhook::body(letter).to_string();
                let mut request = post(url, body.clone())?;
                if let Some(secret) = secret {
                    let value = webhook::signature(secret, &body, now);
                    request.headers_mut().insert(webhook::SIGNATURE, header_value(&value)?);
                }
                if let Some(bearer) = bearer {
                    let value = header_value(&format!("Bearer {bearer}"))?;
                    request.headers_mut().insert(header::AUTHORIZATION, value);
                }
                Ok(request)
            }
            Self::Slack { url } => post(url, slack::body(letter).to_string()),
            Self::DingTalk { url, secret, keyword } => {
                let url = match secret {
                    Some(secret) => dingtalk::signed(url, secret, now),
                    None => url.clone(),
                };
                post(&url, dingtalk::body(letter, keyword.as_deref()).to_string())
            }
            Self::WeCom { url } => post(url, wecom::body(letter).to_string()),
            Self::PagerDuty { url, routing_key } => {
                post(url, pagerduty::body(letter, routing_key).to_string())
            }
        }
    }

    /// Whether an answer says that it was taken; the text is for people and holds nothing of the address.
    pub fn check_answer(&self, status: StatusCode, body: &[u8]) -> Result<(), String> {
        let text = || {
            let text: String =
                String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(200).collect();
            if text.is_empty() { String::new() } else { format!(": {text}") }
        };
        if !status.is_success() {
            return Err(format!("it answered {status}{}", text()));
        }
        match self {
            // Both answer 200 to whatever they refuse.
            Self::DingTalk { .. } | Self::WeCom { .. } => {
                let answer: Value = serde_json::from_slice(body).unwrap_or_default();
                match answer["errcode"].as_i64() {
                    Some(0) => Ok(()),
                    _ => Err(format!("it refused the message{}", text())),
                }
            }
            _ => Ok(()),
        }
    }
}

fn post(url: &str, body: String) -> Result<Request<Bytes>, String> {
    let uri: Uri = url.parse().map_err(|_| "its URL cannot be read: write https://host/path".to_owned())?;
    let request = Request::post(uri).header(header::CONTENT_TYPE, "application/json; charset=utf-8");
    request.body(Bytes::from(body)).map_err(|_| "its URL cannot be used: write https://host/path".to_owned())
}

fn header_value(text: &str) -> Result<header::HeaderValue, String> {
    let mut value = header::HeaderValue::from_str(text)
        .map_err(|_| "its secret holds a line end or the like".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
