//! Import cycles: files of one crate that depend on one another, directly or over others. To understand one of them,
//! all have to be read, and none can be tested or moved alone.
//!
//! A file is a node. An arrow leads to the file that defines a name in a `use` or in a path; a file that only declares
//! its modules and re-exports their names is therefore not in a cycle. A re-export that the file does not use itself is
//! not an arrow either. Tests do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::modules::{Files, Modules, Named};

/// From file to file, with the first line that imports it.
pub(super) type Arrows = BTreeMap<String, BTreeMap<String, (usize, String)>>;

/// The arrows between the files of the crate that begins with this file.
pub(super) fn arrows(files: &Files, root: &str) -> Arrows {
    let mut modules = Modules::default();
    modules.read(files, root);
    let mut arrows = Arrows::new();
    for (at, module) in modules.all.iter().enumerate() {
        // A re-export is an arrow if it is used here as well.
        let uses = module.uses.iter().filter(|said| !said.public || module.words.contains(&said.name));
        let uses = uses.map(|said| (said.line, &said.path));
        for (line, path) in uses.chain(module.paths.iter().map(|(line, path)| (*line, path))) {
            // A file that imports a module uses its items by paths, which are handled separately.
            let Some(Named::Item(to)) = modules.resolve(at, path) else { continue };
            let to = &modules.all[to].file;
            if *to != module.file {
                let from = arrows.entry(module.file.clone()).or_default();
                from.entry(to.clone()).or_insert_with(|| (line, path.join("::")));
            }
        }
    }
    arrows
}

/// The files on a cycle with `start`, and the shortest one through it.
fn circle(arrows: &Arrows, start: &str) -> Option<(BTreeSet<String>, Vec<String>)> {
    let reached = |arrows: &Arrows| {
        let mut from: BTreeMap<String, String> = BTreeMap::new();
        let mut queue = VecDeque::from([start.to_owned()]);
        while let Some(file) = queue.pop_front() {
            for to in arrows.get(&file).into_iter().flat_map(|to| to.keys()) {
                if !from.contains_key(to) {
                    from.insert(to.clone(), file.clone());
                    queue.push_back(to.clone());
                }
            }
        }
        from
    };
    let forward = reached(arrows);
    let mut path = vec![start.to_owned()];
    let mut at = forward.get(start)?;
    while at != start {
        path.push(at.clone());
        at = &forward[at];
    }
    path.push(start.to_owned());
    path.reverse();
    let mut back = Arrows::new();
    for (from, to) in arrows {
        for (to, said) in to {
            back.entry(to.clone()).or_default().insert(from.clone(), said.clone());
        }
    }
    let back = reached(&back);
    Some((forward.into_keys().filter(|file| back.contains_key(file)).collect(), path))
}

/// Every cycle, as its shortest path with the importing lines.
pub(super) fn circles(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    let is_root = |file: &&String| file.ends_with("/lib.rs") || file.ends_with("/main.rs");
    for root in files.keys().filter(is_root) {
        let arrows = arrows(files, root);
        let mut seen = BTreeSet::new();
        for file in arrows.keys() {
            if seen.contains(file) {
                continue;
            }
            let Some((members, _)) = circle(&arrows, file) else { continue };
            let paths = members.iter().filter_map(|member| circle(&arrows, member));
            let (_, path) = paths.min_by_key(|(_, path)| path.len()).expect("a circle has members");
            let steps = path.windows(2).map(|step| {
                let (line, said) = &arrows[&step[0]][&step[1]];
                format!("\n    {}:{line} says {said}, of {}", step[0], step[1])
            });
            found.push(format!(
                "{} files know one another:{}\n    all: {}",
                members.len(),
                steps.collect::<String>(),
                members.iter().cloned().collect::<Vec<_>>().join(" ")
            ));
            seen.extend(members);
        }
    }
    found
}

/// How many arrows there are in all.
fn count(files: &Files) -> usize {
    let roots = files.keys().filter(|file| file.ends_with("/lib.rs"));
    roots.map(|root| arrows(files, root).values().map(BTreeMap::len).sum::<usize>()).sum()
}

pub(super) fn ours() -> Files {
    let mut found = Vec::new();
    for folder in ["src", "clients/rust/src"] {
        super::files(&super::root().join(folder), &mut found);
    }
    let read = |path: std::path::PathBuf| {
        let name = path.strip_prefix(super::root()).unwrap().display().to_string();
        (name, std::fs::read_to_string(path).unwrap())
    };
    found.into_iter().map(read).collect()
}

#[test]
fn no_files_of_a_crate_know_one_another() {
    let files = ours();
    assert!(count(&files) > 500, "the scan follows imports: {} arrows", count(&files));
    let wrong = circles(&files);
    assert!(
        wrong.is_empty(),
        "\n{}\n\nmove what both need to a file below them, or hand it in as a value\n",
        wrong.join("\n")
    );
}

/// Files of a made-up crate, with their contents.
type Made = &'static [(&'static str, &'static str)];

fn tree(files: Made) -> Files {
    files.iter().map(|(name, text)| (format!("src/made/{name}"), (*text).to_owned())).collect()
}

#[test]
fn circles_are_found_with_their_lines() {
    let broken: &[(&str, Made, &str)] = &[
        (
            "a module and its parent",
            &[
                ("lib.rs", "mod plan;"),
                ("plan/mod.rs", "mod due;\npub struct Facts;\npub fn host() {\n    due::account();\n}"),
                ("plan/due.rs", "use super::Facts;\npub(super) fn account() {}"),
            ],
            "src/made/plan/mod.rs:4 says due::account, of src/made/plan/due.rs",
        ),
        (
            "three, over a re-export",
            &[
                ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::{A, Other as Renamed};"),
                ("a.rs", "use crate::b::{\n    B,\n};\npub struct A;\npub struct Other;"),
                ("b.rs", "fn f() -> crate::c::C { crate::c::C }\npub struct B;"),
                ("c.rs", "pub struct C;\nconst R: crate::Renamed = todo!();"),
            ],
            "src/made/c.rs:2 says crate::Renamed, of src/made/a.rs",
        ),
        (
            "over a glob and a module in braces",
            &[
                ("lib.rs", "mod a;\nmod b;"),
                (
                    "a.rs",
                    "pub use inner::*;\nmod inner {\n    use super::super::b::B;\n    pub struct A(B);\n}",
                ),
                ("b.rs", "use super::a;\npub struct B;\nfn f<'a>(x: &'a a::A) -> char { '\"' }"),
            ],
            "src/made/b.rs:3 says a::A, of src/made/a.rs",
        ),
    ];
    for (what, files, line) in broken {
        let found = circles(&tree(files));
        assert!(found.len() == 1 && found[0].contains(line), "{what}: {found:#?}");
    }
}

#[test]
fn what_goes_one_way_is_not_a_circle() {
    let fine: &[Made] = &[
        // A file with re-exports is not in a cycle, and shared code may be in a separate file.
        &[
            ("lib.rs", "pub mod plan;"),
            ("plan/mod.rs", "mod due;\nmod facts;\npub use due::account;\npub use facts::Facts;"),
            ("plan/due.rs", "use super::Facts;\npub fn account(facts: Facts) {}"),
            ("plan/facts.rs", "pub struct Facts;"),
        ],
        // Tests may import what they test.
        &[
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "use crate::b::B;\n#[cfg(test)]\nmod tests;\npub struct A(B);"),
            ("a/tests.rs", "use super::A;"),
            ("b.rs", "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"),
        ],
        // Comments and strings name nothing; nor do fields, other crates, or a word that is also a lifetime.
        &[
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "use crate::b::B;\npub struct A { b: &'static B }"),
            ("b.rs", "// crate::a::A\nuse std::fmt;\npub struct B;\nconst T: &str = \"crate::a::A\";"),
        ],
    ];
    for files in fine {
        assert_eq!(circles(&tree(files)), Vec::<String>::new());
    }
}
