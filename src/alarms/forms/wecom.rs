//! A group robot of WeCom's (企业微信): markdown of at most 4 096 bytes.

use serde_json::{Value, json};

use super::parts::{NAMED, fit};
use crate::letter::Letter;

const MOST: usize = 4096;

pub(super) fn body(letter: &Letter) -> Value {
    let color = if letter.raised.is_empty() { "info" } else { "warning" };
    let mut lines = vec![format!("<font color=\"{color}\">{}</font>", letter.title())];
    lines.extend(letter.lines(NAMED).into_iter().map(|line| format!("> {line}")));
    json!({ "msgtype": "markdown", "markdown": { "content": fit(&lines, "\n", MOST) } })
}
