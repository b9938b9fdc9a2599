//! Mutations of inputs.

use crate::rng::Rng;

/// Edge cases of arithmetic.
const EDGES: [&str; 18] = [
    "0",
    "-1",
    "1",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "-0.0",
    "0x7fffffff",
    "253402300799",
    "-62135596800000",
    "00000000000000000000000007",
];
/// Pieces that are hard for any parser.
const PIECES: [&str; 24] = [
    "{", "}", "[", "]", ":", ",", "\"", "'", "\\", "\\u0000", "\\ud800", "\n", "\r\n", "\t", "\u{0}",
    "\u{feff}", "\u{202e}", "é", "𝄞", "null", "true", "&a", "*a", "<<: ",
];
/// Longest input.
pub const MOST: usize = 64 << 10;

/// A mutation of `input`; `others` are mixed in, `words` are those of the target.
pub fn mutate(input: &[u8], others: &[Vec<u8>], words: &[&str], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=rng.index(4) {
        once(&mut bytes, others, words, rng);
    }
    bytes.truncate(MOST);
    bytes
}

fn once(bytes: &mut Vec<u8>, others: &[Vec<u8>], words: &[&str], rng: &mut Rng) {
    let at = rng.index(bytes.len() + 1);
    match rng.index(13) {
        0 if at < bytes.len() => bytes[at] ^= 1 << rng.index(8),
        1 if at < bytes.len() => bytes[at] = u8::try_from(rng.index(256)).unwrap_or_default(),
        2 => {
            let end = (at + 1 + rng.index(8)).min(bytes.len());
            bytes.drain(at..end);
        }
        3 => {
            let end = (at + 1 + rng.index(bytes.len() + 1)).min(bytes.len());
            bytes.drain(at..end);
        }
        4 => insert(bytes, at, rng.one(&PIECES).as_bytes()),
        5 if !words.is_empty() => insert(bytes, at, rng.one(words).as_bytes()),
        6 => insert(bytes, at, rng.one(&EDGES).as_bytes()),
        7 => replace_number(bytes, at, rng.one(&EDGES).as_bytes()),
        8 => {
            // The same again, and again.
            let end = (at + 1 + rng.index(32)).min(bytes.len());
            let piece = bytes[at.min(end)..end].repeat(1 + rng.index(40));
            insert(bytes, at, &piece);
        }
        9 => {
            let piece =
                rng.one(&["[", "{\"a\":", "- ", "((", "\"", "&a [*a,", " "]).repeat(1 << rng.index(11));
            insert(bytes, at, piece.as_bytes());
        }
        10 if !others.is_empty() => {
            let other = rng.one(others);
            let (from, to) = (rng.index(other.len() + 1), rng.index(other.len() + 1));
            insert(bytes, at, &other[from.min(to)..from.max(to)]);
        }
        11 if !others.is_empty() => {
            let other = rng.one(others);
            let from = rng.index(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => {
            let to = rng.index(bytes.len() + 1);
            let (from, to) = (at.min(to), at.max(to));
            let piece = bytes[from..to].to_vec();
            bytes.drain(from..to);
            let at = rng.index(bytes.len() + 1);
            insert(bytes, at, &piece);
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    let room = MOST.saturating_sub(bytes.len());
    let piece = &piece[..piece.len().min(room)];
    bytes.splice(at..at, piece.iter().copied());
}

/// Replaces the next number from there on.
fn replace_number(bytes: &mut Vec<u8>, at: usize, with: &[u8]) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else { return };
    let length = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(from..from + length, with.iter().copied());
}

/// Shorter inputs that still fail, tried until none does or there were enough.
pub fn shorten(input: &[u8], mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut piece = (best.len() / 2).max(1);
    let mut tries = 0;
    while tries < 2000 {
        let mut at = 0;
        let before = best.len();
        while at < best.len() && tries < 2000 {
            let mut shorter = best.clone();
            shorter.drain(at..(at + piece).min(best.len()));
            tries += 1;
            if fails(&shorter) {
                best = shorter;
            } else {
                at += piece;
            }
        }
        if piece == 1 && best.len() == before {
            break;
        }
        piece = (piece / 2).max(1);
    }
    best
}
