//! The guide as a book: built by mdBook, one of the programs of `tools.txt`. Links out of the guide lead to the repository, and
//! every link of the built book must lead somewhere.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command::{must, root, target};
use crate::tools;

/// How the pages link to files of the repository outside of the guide.
const OUTSIDE: &str = "](../../../";
const DECISIONS: &str = "](../../decisions/";
/// The name by which mdBook calls us.
pub(crate) const PREPROCESSOR: &str = "book-links";

/// Builds it into `target/book`; whether all of its links lead somewhere. Prints those that do not.
pub(crate) fn is_whole() -> Result<bool> {
    tools::setup()?;
    let us = std::env::current_exe()?;
    let mut build = tools::command("mdbook");
    build
        .args(["build", "docs"])
        .env("MDBOOK_PREPROCESSOR__OUTSIDE__COMMAND", format!("{} {PREPROCESSOR}", us.display()))
        .env("MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL", repository()?);
    must(&mut build)?;
    let broken = broken(&target().join("book"))?;
    broken.iter().for_each(|link| println!("    BROKEN: {link}"));
    Ok(broken.is_empty())
}

fn repository() -> Result<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("repository = "));
    Ok(line.context("Cargo.toml has no repository")?.trim_matches('"').to_owned())
}

/// mdBook's preprocessor: `supports RENDERER`, or a book on stdin, which it writes to stdout.
pub(crate) fn preprocess(arguments: &[String]) -> Result<bool> {
    if arguments.first().is_some_and(|word| word == "supports") {
        return Ok(true);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let both: Value = serde_json::from_str(&text)?;
    let mut book = both.get(1).cloned().context("mdBook produced no book")?;
    lead_outside(&mut book, &format!("{}/blob/main", repository()?));
    println!("{book}");
    Ok(true)
}

fn lead_outside(part: &mut Value, to: &str) {
    match part {
        Value::String(text) => {
            *text = text
                .replace(OUTSIDE, &format!("]({to}/"))
                .replace(DECISIONS, &format!("]({to}/docs/decisions/"));
        }
        Value::Array(parts) => parts.iter_mut().for_each(|part| lead_outside(part, to)),
        Value::Object(parts) => parts.values_mut().for_each(|part| lead_outside(part, to)),
        _ => {}
    }
}

/// Links of the pages that lead to a file that is not there.
fn broken(book: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(book)? {
        let page = entry?.path();
        // The page for missing addresses: its links are those of the first page.
        if page.extension().is_none_or(|is| is != "html") || page.ends_with("404.html") {
            continue;
        }
        let html = std::fs::read_to_string(&page)?;
        for link in links(&html) {
            if !book.join(link).exists() {
                found.push(format!("{}: {link} is not there", page.display()));
            }
        }
    }
    Ok(found)
}

/// The links of a page within the book, without anchors.
fn links(html: &str) -> impl Iterator<Item = &str> {
    let attributes = html.split(" href=\"").skip(1).chain(html.split(" src=\"").skip(1));
    let targets = attributes.filter_map(|rest| rest.split_once('"')).map(|(target, _)| target);
    let local = targets.filter(|target| !target.contains(':') && !target.starts_with(['#', '/']));
    local
        .map(|target| target.split(['#', '?']).next().unwrap_or_default())
        .filter(|target| !target.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_outside_of_the_guide_is_linked_in_the_repository() {
        let mut book = serde_json::json!({"items": [{"Chapter": {"content":
            "[a](../../../clients/README.md#x) [b](start.md) [c](../../decisions/1.md)"}}]});
        lead_outside(&mut book, "https://x/blob/main");
        assert_eq!(
            book["items"][0]["Chapter"]["content"],
            "[a](https://x/blob/main/clients/README.md#x) [b](start.md) [c](https://x/blob/main/docs/decisions/1.md)"
        );
    }

    #[test]
    fn a_link_to_a_page_that_is_not_there_is_named() {
        let folder = target().join(format!("tmp/book-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let page = r##"<a href="a.html#x"> <a href="gone.html"> <img src="b.svg"> <a href="#y"> <a href="https://x/">"##;
        std::fs::write(folder.join("a.html"), page).unwrap();
        let found = broken(&folder).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("gone.html") && found[1].contains("b.svg"), "{found:?}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
