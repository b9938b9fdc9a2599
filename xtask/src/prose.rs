//! The prose lint of `cargo xtask check`: phrases that the style page in CONTRIBUTING.md rules out, in pages of the guide and in
//! comments of the code. Plain matching of text, in the spirit of `tests/architecture.rs`, without any grammar: a rule is worth
//! having only if it is nearly never wrong.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::command::root;

/// The paths to read, each with everything below it.
const READ: &[&str] = &[
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "docs/guide/src",
    "docs/architecture",
    "docs/decisions",
    "proto",
    "src",
    "clients",
    "console",
    "examples",
    "deploy",
    "xtask/src",
    "tests",
];

/// The languages whose comments are read.
const LANGUAGES: &[(&str, Language)] = &[
    ("rs", Language::Slashes { blocks: &[] }),
    ("proto", Language::Slashes { blocks: &[] }),
    ("go", Language::Slashes { blocks: &[] }),
    ("java", Language::Slashes { blocks: &[("/*", "*/")] }),
    ("ts", Language::Slashes { blocks: &[("/*", "*/")] }),
    ("svelte", Language::Slashes { blocks: &[("/*", "*/"), ("<!--", "-->")] }),
    ("py", Language::Python),
];

/// Generated, full of the phrases on purpose, or written by others.
const LEFT_OUT: &[&str] = &[
    "tests/sim/mutants.md",
    "xtask/src/prose.rs",
    "clients/go/rosterdpb",
    "clients/python/rosterd/_proto",
    "clients/typescript/src/proto",
    "console/src/lib/api/types.ts",
    "node_modules",
    "target",
    "build",
    "dist",
];

/// Paths that do not keep the rules yet. This list may only shrink: an entry in which nothing is found fails the check.
const NOT_YET: &[&str] = &[];

/// A phrase, matched as whole words without regard to case, and what to write instead.
struct Rule {
    phrases: &'static [&'static str],
    /// Not after these words.
    unless_after: &'static [&'static str],
    /// Not before these words.
    unless_before: &'static [&'static str],
    advice: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        phrases: &["is none", "are none", "was none", "were none", "be none"],
        unless_after: &["there", "if there"],
        unless_before: &["of"],
        advice: "say what it is not: \"is not a job\", \"is not one\"",
    },
    Rule {
        phrases: &["is no", "are no", "was no", "were no", "be no"],
        unless_after: &["there"],
        unless_before: &[
            "longer",
            "more",
            "less",
            "different",
            "other",
            "later",
            "earlier",
            "sooner",
            "newer",
            "older",
            "higher",
            "lower",
        ],
        advice: "write \"is not a\", or \"is not an\"",
    },
    Rule {
        phrases: &[
            "it is said",
            "is said of",
            "are said of",
            "it is told that",
            "is to be told",
            "that is to hear",
        ],
        unless_after: &[],
        unless_before: &[],
        advice: "use the active voice, and name the actor",
    },
    Rule {
        phrases: &["any more"],
        unless_after: &[],
        unless_before: &["than"],
        advice: "write \"no longer\"",
    },
    Rule {
        phrases: &["goes before", "go before"],
        unless_after: &[],
        unless_before: &[],
        advice: "write \"overrides\", or \"runs first\"",
    },
    Rule {
        phrases: &["in hand", "declared dead", "buries", "buried", "bury", "unrun"],
        unless_after: &[],
        unless_before: &[],
        advice: "the glossary has the word: in flight, marked dead, not run",
    },
    Rule {
        phrases: &[
            "where there is none",
            "where there are none",
            "where there is no",
            "where nothing is",
            "where nobody is",
        ],
        unless_after: &[],
        unless_before: &[],
        advice: "write \"if\" for a condition; \"where\" is for places",
    },
    Rule {
        phrases: &[
            "behaviour",
            "behaviours",
            "colour",
            "colours",
            "favour",
            "neighbour",
            "neighbours",
            "centre",
            "licence",
            "organise",
            "organised",
            "initialise",
            "initialised",
            "serialise",
            "serialised",
            "recognise",
            "recognised",
            "normalise",
            "normalised",
            "optimise",
            "optimised",
            "optimisation",
            "authorise",
            "authorised",
            "synchronise",
            "synchronised",
        ],
        unless_after: &[],
        unless_before: &[],
        advice: "en-US spelling",
    },
];

/// Whether all prose keeps the rules. Prints each place that does not, with the advice.
pub(crate) fn is_plain() -> Result<bool> {
    let mut plain = true;
    for (file, line, phrase, advice) in found_in(&root(), READ, NOT_YET)? {
        plain = false;
        println!("    PROSE: {}:{line}: \"{phrase}\": {advice}", file.display());
    }
    for held_back in NOT_YET {
        if found_in(&root(), &[held_back], &[])?.is_empty() {
            plain = false;
            println!(
                "    PROSE: {held_back} follows the rules: remove it from the list in xtask/src/prose.rs"
            );
        }
    }
    Ok(plain)
}

type Found = (PathBuf, usize, &'static str, &'static str);

fn found_in(root: &Path, read: &[&str], except: &[&str]) -> Result<Vec<Found>> {
    let mut files = Vec::new();
    for place in read {
        files_below(&root.join(place), &mut files)?;
    }
    files.sort();
    files.dedup();
    let mut all = Vec::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).to_path_buf();
        if except.iter().any(|place| name.starts_with(place)) {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        let found = match Language::of(&file) {
            Some(language) => in_comments(&text, language),
            None => in_page(&text),
        };
        all.extend(found.into_iter().map(|(line, phrase, advice)| (name.clone(), line, phrase, advice)));
    }
    Ok(all)
}

fn files_below(place: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !place.is_dir() {
        files.push(place.to_path_buf());
        return Ok(());
    }
    for entry in std::fs::read_dir(place)? {
        let path = entry?.path();
        let is_read = path.extension().is_some_and(|is| is == "md") || Language::of(&path).is_some();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_left_out = is_hidden || LEFT_OUT.iter().any(|file| path.ends_with(file));
        if !is_left_out && (path.is_dir() || is_read) {
            files_below(&path, files)?;
        }
    }
    Ok(())
}

type InLine = (usize, &'static str, &'static str);

/// Checks all lines of a page outside of code blocks.
fn in_page(text: &str) -> Vec<InLine> {
    let mut in_code = false;
    let lines = text.lines().map(|line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        if in_code || fence { "" } else { line }
    });
    in_lines(lines)
}

/// Checks the comments of code that have a line of their own.
fn in_comments(text: &str, language: Language) -> Vec<InLine> {
    let mut inside = None;
    in_lines(text.lines().map(|line| language.comment(line.trim(), &mut inside)))
}

/// How a language marks comments.
#[derive(Debug, Clone, Copy)]
enum Language {
    /// Lines with `//`, and blocks by their beginnings and ends.
    Slashes { blocks: &'static [(&'static str, &'static str)] },
    /// Lines with `#`, and docstrings.
    Python,
}

/// What a line continues: the end of it, and whether it is a comment.
type Inside = Option<(&'static str, bool)>;

const QUOTES: &str = "\"\"\"";

impl Language {
    /// The language of a file; `None`: it is a page.
    fn of(file: &Path) -> Option<Self> {
        let extension = file.extension()?;
        LANGUAGES.iter().find(|(name, _)| extension == *name).map(|(_, language)| *language)
    }

    /// The text of a line that is a comment; empty for code.
    fn comment<'l>(self, line: &'l str, inside: &mut Inside) -> &'l str {
        if let Some((end, is_comment)) = *inside {
            let text = line.split_once(end).map(|(text, _)| text);
            if text.is_some() {
                *inside = None;
            }
            return if is_comment { text.unwrap_or(line).trim_start_matches('*') } else { "" };
        }
        match self {
            Self::Slashes { .. } if line.starts_with("//") => line.trim_start_matches(['/', '!']),
            Self::Slashes { blocks } => {
                let begun = blocks.iter().find_map(|(begin, end)| Some((line.strip_prefix(begin)?, *end)));
                begun.map_or("", |(text, end)| opened(text, end, inside).trim_start_matches('*'))
            }
            Self::Python if line.starts_with('#') => line.trim_start_matches(['#', ':', '!']),
            Self::Python => match line.split_once(QUOTES) {
                Some(("", text)) => opened(text, QUOTES, inside),
                // A text of the program, not a docstring.
                Some((_, text)) => {
                    *inside = (!text.contains(QUOTES)).then_some((QUOTES, false));
                    ""
                }
                None => "",
            },
        }
    }
}

/// The text of a comment in its first line. Without its end there, further lines belong to it.
fn opened<'l>(text: &'l str, end: &'static str, inside: &mut Inside) -> &'l str {
    let whole = text.split_once(end).map(|(text, _)| text);
    if whole.is_none() {
        *inside = Some((end, true));
    }
    whole.unwrap_or(text)
}

/// Phrases may run from one line to the next.
fn in_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<InLine> {
    let mut words: Vec<(usize, String)> = Vec::new();
    for (index, line) in lines.enumerate() {
        words.extend(words_of(line).map(|word| (index + 1, word)));
        // A blank line ends what a phrase may run over.
        if line.trim().is_empty() {
            words.push((index + 1, String::new()));
        }
    }
    let mut found = Vec::new();
    for rule in RULES {
        for phrase in rule.phrases {
            let wanted: Vec<&str> = phrase.split(' ').collect();
            for (at, window) in words.windows(wanted.len()).enumerate() {
                let matches = window.iter().zip(&wanted).all(|((_, word), wanted)| bare(word) == *wanted);
                // A sentence's end within a phrase is the end of the phrase.
                let whole = window[..wanted.len() - 1]
                    .iter()
                    .all(|(_, word)| !word.ends_with(['.', ':', ';', ',', '!', '?']));
                let before = words[..at].last().map(|(_, word)| bare(word)).unwrap_or_default();
                let after = words.get(at + wanted.len()).map(|(_, word)| bare(word)).unwrap_or_default();
                let excused = rule.unless_after.contains(&before) || rule.unless_before.contains(&after);
                if matches && whole && !excused {
                    found.push((window[0].0, *phrase, rule.advice));
                }
            }
        }
    }
    found.sort_unstable();
    found
}

/// The words of a line in lower case; text between backquotes is code, and counts as one word that matches nothing.
fn words_of(line: &str) -> impl Iterator<Item = String> {
    let prose: String =
        line.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "`" }).collect();
    prose.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().into_iter()
}

fn bare(word: &str) -> &str {
    word.trim_matches(|letter: char| !letter.is_alphanumeric() && letter != '`')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrases(text: &str) -> Vec<&'static str> {
        in_page(text).into_iter().map(|(_, phrase, _)| phrase).collect()
    }

    #[test]
    fn what_reads_like_a_translation_is_found() {
        assert_eq!(phrases("A name that is none."), ["is none"]);
        assert_eq!(phrases("This is no\naddress."), ["is no"]);
        assert_eq!(phrases("It is not believed any more, and it is Buried."), ["any more", "buried"]);
        assert_eq!(in_code("a.rs", "//! It is no job.\nlet is_no = 1; // is no\n/// fine"), [(1, "is no")]);
    }

    /// The lines with phrases in the comments of a file.
    fn in_code(name: &str, text: &str) -> Vec<(usize, &'static str)> {
        let language = Language::of(Path::new(name)).unwrap();
        in_comments(text, language).into_iter().map(|(line, phrase, _)| (line, phrase)).collect()
    }

    #[test]
    fn comments_of_every_language_are_read_and_their_code_is_not() {
        let java = "/**\n * A name that\n * is none.\n *\n * @return fine */\nString is = \"is none\";\n/** It is no job. */\n\
                    /* fine */ int is; /* is no */\n// not any more";
        assert_eq!(in_code("A.java", java), [(3, "is none"), (7, "is no"), (9, "any more")]);
        assert_eq!(in_code("a.ts", java).len(), 3);
        assert_eq!(in_code("a.svelte", "<!-- It is\nno job. -->\n<p>is no</p>"), [(1, "is no")]);
        assert_eq!(in_code("a.go", "// It is no job.\ns := `\n/* is no */`"), [(1, "is no")]);
        let python = "\"\"\"It is no job.\"\"\"\nTEXT = \"\"\"\nis no\n\"\"\"\n\"\"\"A name.\n\nIt is\n    none.\n\"\"\"\n\
                      is_no = \"is no\"  # is no\n#: not any more";
        assert_eq!(in_code("a.py", python), [(1, "is no"), (7, "is none"), (11, "any more")]);
    }

    #[test]
    fn plain_english_and_code_are_let_through() {
        let fine = "There is no job, and it is no longer there. If there is none, `is none` says so. So it is. No job is.\n\n\
                    ```\nis none\n```\n";
        assert_eq!(phrases(fine), [""; 0]);
    }
}
