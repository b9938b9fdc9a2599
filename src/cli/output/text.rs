//! Words, lines and lists for people.

use unicode_width::UnicodeWidthStr as _;

use super::look::look;

/// Names and values, one a line. What is too long for the terminal goes on below itself.
pub(crate) fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let facts: Vec<_> = facts.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let wide = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + 2;
    let mut out = String::new();
    for (name, value) in facts {
        let mut name = name;
        let lines = match look().width {
            Some(columns) => wrapped(&value, columns.saturating_sub(wide)),
            None => vec![value],
        };
        for line in lines {
            out += format!("{name:wide$}{line}").trim_end();
            out.push('\n');
            name = "";
        }
    }
    out
}

/// Lines of at most so many columns, broken between words; a longer word has a line of its own.
pub(crate) fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The word of an enum value: `JOB_STATUS_NO_WORKER` is `no_worker`.
pub(crate) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

/// Text of bounded length on one line, for a table.
pub(crate) fn brief(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= most && line.len() == text.trim_end().len() {
        return line.to_owned();
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A text, or `-`.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".into() } else { text.into() }
}

/// `1 item`, `2 items`.
pub(crate) fn count(number: usize, of: &str) -> String {
    format!("{number} {of}{}", if number == 1 { "" } else { "s" })
}

/// Numbers as ranges: `0-3,7`.
pub(crate) fn ranges(items: &[u32]) -> String {
    let mut out: Vec<(u32, u32)> = Vec::new();
    for item in items {
        match out.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*item) => *last = *item,
            _ => out.push((*item, *item)),
        }
    }
    let texts = out.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_shown_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn a_brief_text_is_one_short_line() {
        assert_eq!(brief("abc", 5), "abc");
        assert_eq!(brief("abcdef", 5), "abcd…");
        assert_eq!(brief("a\nb", 5), "a…");
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a-word-that-is-long b", 7), ["a-word-that-is-long", "b"]);
    }
}
