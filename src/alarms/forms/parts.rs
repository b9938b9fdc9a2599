//! What several forms share: how many alarms a chat is told of, how a text is cut, how a body is signed.

/// How many alarms a message to a chat names.
pub(super) const NAMED: usize = 20;

pub(super) fn hmac_sha256(key: &str, message: &str) -> Vec<u8> {
    use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
    sign(&Key::new(HMAC_SHA256, key.as_bytes()), message.as_bytes()).as_ref().to_vec()
}

/// Cuts a text to at most so many bytes, between lines where that is possible.
pub(super) fn fit(lines: &[String], between: &str, most: usize) -> String {
    const CUT: &str = "…";
    let mut out = String::new();
    for line in lines {
        let wanted = if out.is_empty() { line.len() } else { between.len() + line.len() };
        if out.len() + wanted + between.len() + CUT.len() > most {
            if out.is_empty() {
                let mut end = most.saturating_sub(CUT.len()).min(line.len());
                while !line.is_char_boundary(end) {
                    end -= 1;
                }
                out.push_str(&line[..end]);
            } else {
                out.push_str(between);
            }
            out.push_str(CUT);
            return out;
        }
        if !out.is_empty() {
            out.push_str(between);
        }
        out.push_str(line);
    }
    out
}
