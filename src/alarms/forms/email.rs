//! A letter as a mail: RFC 5322 with a text of UTF-8 in base64.

use std::fmt::Write as _;

use base64::Engine as _;
use rosterd_domain::time::Time;

use crate::letter::Letter;
use crate::settings::Mail;

/// How many alarms a mail names.
const NAMED: usize = 100;
/// Longest line of a body in base64.
const LINE: usize = 76;
/// Most bytes of text in one encoded word: 75 characters with its marks.
const WORD: usize = 45;

/// The message as it goes over the wire, with CRLF, without the dot at its end. `id`: unique.
pub fn message(mail: &Mail, letter: &Letter, id: &str, now: Time) -> String {
    let mut out = String::new();
    let mut field = |name: &str, value: &str| {
        let _ = write!(out, "{name}: {value}\r\n");
    };
    field("Date", &date(now));
    field("From", &mail.from);
    field("To", &mail.to.join(", "));
    if !mail.cc.is_empty() {
        field("Cc", &mail.cc.join(", "));
    }
    let title = letter.title();
    let subject = if mail.subject.is_empty() { title } else { format!("{} {title}", mail.subject) };
    field("Subject", &words(&subject));
    field("Message-ID", &format!("<{id}@rosterd>"));
    // So that nobody's absence answers it.
    field("Auto-Submitted", "auto-generated");
    field("MIME-Version", "1.0");
    field("Content-Type", "text/plain; charset=utf-8");
    field("Content-Transfer-Encoding", "base64");
    out.push_str("\r\n");
    let encoded = base64::engine::general_purpose::STANDARD.encode(text(letter));
    for line in encoded.as_bytes().chunks(LINE) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push_str("\r\n");
    }
    out
}

fn text(letter: &Letter) -> String {
    let mut lines = letter.lines(NAMED);
    if letter.test {
        lines.push("Somebody tries whether alarms reach you here.".to_owned());
    }
    let links = letter.alarms().take(NAMED).filter_map(|alarm| letter.href(alarm));
    let mut links: Vec<String> = links.collect();
    links.dedup();
    if !links.is_empty() {
        lines.push(String::new());
        lines.extend(links);
    }
    lines.push(String::new());
    lines.push(format!("namespace {}, coordinator {}", letter.namespace, letter.coordinator));
    lines.join("\r\n") + "\r\n"
}

/// As RFC 5322 has it.
fn date(now: Time) -> String {
    now.timestamp().strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

/// A header's text: as it is, or in encoded words (RFC 2047), each of whole characters. Line ends become spaces.
fn words(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.is_ascii() && text.len() <= 200 && !text.contains("=?") {
        return text;
    }
    let mut parts = vec![String::new()];
    for c in text.chars() {
        if parts.last().is_some_and(|part| part.len() + c.len_utf8() > WORD) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let encode =
        |part: &String| format!("=?utf-8?B?{}?=", base64::engine::general_purpose::STANDARD.encode(part));
    parts.iter().map(encode).collect::<Vec<_>>().join("\r\n ")
}

/// The address within `Name <address>`, or the text itself; `None`: it cannot be one.
pub fn address(text: &str) -> Option<&str> {
    let bare = match text.rsplit_once('<') {
        Some((_, rest)) => rest.strip_suffix('>')?,
        None => text,
    }
    .trim();
    let (local, domain) = bare.rsplit_once('@')?;
    let is_plain = |c: char| c.is_ascii_graphic() && !"<>()[]\\,;:\" ".contains(c);
    let good = !local.is_empty() && !domain.is_empty() && local.chars().chain(domain.chars()).all(is_plain);
    (good && text.chars().all(|c| c.is_ascii() && !c.is_control()) && bare.len() <= 254).then_some(bare)
}
