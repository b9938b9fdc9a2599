//! Texts of others, made fit for a terminal and a log: what moves a cursor, colors, hides or turns text around is
//! replaced where it comes in, so that nobody behind has to think of it.

/// What stands for a character that was replaced.
const REPLACED: char = '\u{fffd}';

/// A text of one line, of at most `max` bytes: no character of it moves, hides or turns around what stands beside it.
pub fn line(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for c in text.chars() {
        let c = if is_unfit(c) { REPLACED } else { c };
        if out.len() + c.len_utf8() > max {
            break;
        }
        out.push(c);
    }
    out
}

/// A text of several lines, line breaks and tabs kept; the sequences by which programs color their output are left out.
pub fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => out.push(c),
            // Of a file from Windows, or of a program that draws its progress: never back to the line's start.
            '\r' if rest.as_str().starts_with('\n') => {}
            '\r' => out.push('\n'),
            '\u{1b}' => match sequence(rest.as_str()) {
                Some(length) => rest = rest.as_str()[length..].chars(),
                None => out.push(REPLACED),
            },
            c if is_unfit(c) => out.push(REPLACED),
            c => out.push(c),
        }
    }
    out
}

/// How many bytes of a sequence follow its escape; `None`: it is unknown, or it has no end.
fn sequence(after: &str) -> Option<usize> {
    let bytes = after.as_bytes();
    match bytes.first()? {
        b'[' => {
            let end = bytes[1..].iter().position(|byte| !(0x20..=0x3f).contains(byte))? + 1;
            (0x40..=0x7e).contains(&bytes[end]).then_some(end + 1)
        }
        // Titles and links, to their bell or terminator; none is that long.
        b']' => {
            let text = &bytes[..bytes.len().min(4096)];
            let bell = text.iter().position(|byte| *byte == 7).map(|at| at + 1);
            let terminator = text.windows(2).position(|two| two == b"\x1b\\").map(|at| at + 2);
            bell.into_iter().chain(terminator).min()
        }
        _ => None,
    }
}

/// Controls, and what changes the direction or the lines of a text.
fn is_unfit(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_and_says_what_it_shows() {
        assert_eq!(line("a\n2026 ERROR forged\u{1b}]0;title\u{7}", 99), "a�2026 ERROR forged�]0;title�");
        assert_eq!(line("pay\u{202e}txt.exe\u{85}\u{2028}", 99), "pay�txt.exe��");
        assert_eq!(line("清算 é 👍", 99), "清算 é 👍");
        assert_eq!(line("ab\u{7}", 4), "ab", "the replacement is omitted if it does not fit");
    }

    #[test]
    fn lines_keep_their_breaks_and_lose_their_colors() {
        assert_eq!(lines("a\tb\r\n\u{1b}[1;31mred\u{1b}[0m\rover"), "a\tb\nred\nover");
        assert_eq!(lines("\u{1b}]0;title\u{7}x\u{1b}]8;;http://a\u{1b}\\y"), "xy");
        assert_eq!(lines("\u{1b}[2Jx\u{1b}c\u{9b}2J\u{8}"), "x�c�2J�");
        assert_eq!(lines("\u{1b}["), "�[");
        assert_eq!(lines("\u{1b}[é"), "�[é");
    }
}
