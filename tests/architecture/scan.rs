//! The text of a source file as the rules see it: without its comments and strings, and the paths in it.

/// Blanks comments and strings, and returns the strings.
pub(crate) fn scan(text: &str) -> (String, Vec<(usize, String)>) {
    let (mut code, mut texts, mut rest, mut line) = (String::new(), Vec::new(), text, 1);
    while let Some(first) = rest.chars().next() {
        let (length, said) = piece(rest, code.chars().last());
        let (part, after) = rest.split_at(length);
        match said {
            None => code.push_str(part),
            Some(said) => {
                code.push(if first == '/' { ' ' } else { '"' });
                code.extend(part.chars().filter(|&c| c == '\n'));
                if first != '/' {
                    texts.push((line, said.to_owned()));
                }
            }
        }
        line += part.matches('\n').count();
        rest = after;
    }
    (code, texts)
}

/// The length of the token that begins here; with its content if it is a comment or a string.
fn piece(rest: &str, before: Option<char>) -> (usize, Option<&str>) {
    let until = |start: usize, end: &str| {
        let content = &rest[start..];
        let length = content.find(end).unwrap_or(content.len());
        ((start + length + end.len()).min(rest.len()), Some(&content[..length]))
    };
    let word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        let length = rest.find('\n').unwrap_or(rest.len());
        return (length, Some(&rest[..length]));
    }
    if rest.starts_with("/*") {
        return until(2, "*/");
    }
    if rest.starts_with('"') {
        return quoted(rest);
    }
    if !word && (rest.starts_with("r\"") || rest.starts_with("r#\"")) {
        return if rest.starts_with("r\"") { until(2, "\"") } else { until(3, "\"#") };
    }
    // A character may be a quote; a lifetime has no second one.
    for quote in ["'\"'", "'\\''", "'\\\"'"] {
        if rest.starts_with(quote) {
            return (quote.len(), Some(""));
        }
    }
    (rest.chars().next().map_or(0, char::len_utf8), None)
}

fn quoted(rest: &str) -> (usize, Option<&str>) {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return (at + 1, Some(&rest[1..at])),
            _ => escaped = c == '\\' && !escaped,
        }
    }
    (rest.len(), Some(&rest[1..]))
}

/// All paths in `code` that begin with `root::`, groups spelled out.
pub(crate) fn paths(code: &str, root: &str) -> Vec<(usize, String)> {
    let start = format!("{root}::");
    let mut found = Vec::new();
    for (at, _) in code.match_indices(&start) {
        let before = code[..at].chars().last();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let mut all = Vec::new();
        tree(&code[at + start.len()..], "", &mut all);
        found.extend(all.into_iter().map(|path| (line, path)));
    }
    found
}

/// Reads one tree of a `use`. Returns how much of the text it took.
fn tree(text: &str, above: &str, found: &mut Vec<String>) -> usize {
    let name = text.len() - text.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
    let path = if above.is_empty() { text[..name].to_owned() } else { format!("{above}::{}", &text[..name]) };
    let rest = &text[name..];
    if rest.starts_with("::") && name > 0 {
        return name + 2 + tree(&rest[2..], &path, found);
    }
    if name > 0 || !rest.starts_with('{') {
        found.push(path.trim_end_matches(':').to_owned());
        return name;
    }
    let mut at = 1;
    while at < rest.len() && !rest[at..].starts_with('}') {
        if rest[at..].starts_with(|c: char| c.is_whitespace() || c == ',' || c == '*') {
            at += 1;
            continue;
        }
        at += tree(&rest[at..], above, found).max(1);
    }
    at + 1
}
