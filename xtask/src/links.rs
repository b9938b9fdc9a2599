//! Links between the pages of this repository: each leads to a file that is there, and to a heading that it has. Links
//! in code, and external links, are skipped. A test; nothing calls it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::command::{output, root};

/// A page: where its links lead, and its headings as anchors.
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn new(text: &str) -> Self {
        let (mut links, mut anchors, mut code) = (Vec::new(), BTreeSet::new(), false);
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                code = !code;
            } else if !code {
                if line.starts_with('#') {
                    let heading = anchor(line.trim_start_matches('#'));
                    // The second of a name gets a number.
                    let twice = (1..).map(|n| format!("{heading}-{n}")).find(|name| !anchors.contains(name));
                    anchors.insert(if anchors.contains(&heading) {
                        twice.unwrap_or(heading)
                    } else {
                        heading
                    });
                }
                links.extend(targets(line));
            }
        }
        Self { links, anchors }
    }
}

/// The line without inline code.
fn prose(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of a line's links: the text between `](` and `)`.
fn targets(line: &str) -> Vec<String> {
    let line = prose(line);
    line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// The anchor that forges and mdBook give a heading.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    // The text of a link.
    for (n, part) in heading.split("](").enumerate() {
        text.push_str(if n == 0 { part } else { part.split_once(')').map_or("", |(_, after)| after) });
    }
    let kept = text.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// `a/b/../c` is `a/c`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// What is wrong with a link of `page`; `None` also if it leads out of the repository.
fn defect(pages: &BTreeMap<PathBuf, Page>, page: &Path, link: &str) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if path.is_empty() { page.to_path_buf() } else { plain(&page.parent()?.join(path)) };
    if !root().join(&path).exists() {
        return Some("is not there");
    }
    let there = heading.is_empty() || pages.get(&path).is_none_or(|page| page.anchors.contains(heading));
    (!there).then_some("has no such heading")
}

fn pages() -> BTreeMap<PathBuf, Page> {
    let listed = output(Command::new("git").current_dir(root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "*.md",
    ]));
    let paths: Vec<PathBuf> = listed.unwrap().lines().map(PathBuf::from).collect();
    // Removed files that are not committed yet are listed, too.
    let read =
        |path: PathBuf| Some((path.clone(), Page::new(&std::fs::read_to_string(root().join(&path)).ok()?)));
    paths.into_iter().filter_map(read).collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let pages = pages();
    let mut links = 0;
    let mut broken = Vec::new();
    for (path, page) in &pages {
        for link in &page.links {
            links += 1;
            broken.extend(defect(&pages, path, link).map(|why| format!("{}: {link} {why}", path.display())));
        }
    }
    assert!(links > 200, "only {links} links were found: are they looked for in the right way?");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_of_the_guide_is_in_its_summary() {
    let pages = pages();
    let guide = Path::new("docs/guide/src");
    let summary = &pages[&guide.join("SUMMARY.md")];
    let listed: BTreeSet<PathBuf> = summary.links.iter().map(|link| guide.join(link)).collect();
    let missing: Vec<_> = pages
        .keys()
        .filter(|page| {
            page.parent() == Some(guide) && !page.ends_with("SUMMARY.md") && !listed.contains(*page)
        })
        .collect();
    assert!(missing.is_empty(), "SUMMARY.md does not name {missing:?}");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let page = |text: &str| Page::new(text);
    let pages = BTreeMap::from([(
        PathBuf::from("docs/guide/src/concepts.md"),
        page("# One `two` [three](b.md)\n\n## Is it? Yes\n\n## Is it? Yes"),
    )]);
    let here = Path::new("docs/guide/src/concepts.md");
    for good in [
        "#one-two-three",
        "#is-it-yes",
        "#is-it-yes-1",
        "concepts.md#is-it-yes",
        "../../../README.md",
        "https://x.y/z",
    ] {
        assert_eq!(defect(&pages, here, good), None, "{good}");
    }
    assert_eq!(defect(&pages, here, "#is-it-no"), Some("has no such heading"));
    assert_eq!(defect(&pages, here, "nowhere.md"), Some("is not there"));
    assert_eq!(targets("a [b](c.md) `[d](e.md)` [f](g.md#h)"), ["c.md", "g.md#h"]);
}
