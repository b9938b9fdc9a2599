//! The rooms of the coordinator: which may import from which, and the maximum size of its types. An arrow between two
//! rooms leads to the file that defines the imported name.

use std::collections::BTreeMap;

use super::circles::{arrows, ours};
use super::modules::Files;

/// Each room, and the rooms that it may import from. Lower ones know less.
const ROOMS: &[(&str, &[&str])] = &[
    (
        "driver",
        &["handle", "machine", "inbox", "outbox", "edge_queue", "observers", "tracer", "queries", "io"],
    ),
    ("observers", &["tracer", "io"]),
    ("queries", &["handle", "cluster", "io"]),
    ("handle", &["queries", "inbox", "outbox", "edge_queue", "cluster", "io"]),
    ("machine", &["job", "workers", "schedule", "cluster", "io"]),
    ("job/leader", &["job", "job/parts", "workers", "schedule", "cluster", "io"]),
    ("job", &["job/leader", "job/parts", "workers", "schedule", "cluster", "io"]),
    ("job/parts", &["workers", "io"]),
    ("workers", &["schedule", "cluster", "io"]),
    ("schedule", &["io"]),
    ("cluster", &["io"]),
    ("inbox", &["edge_queue", "io"]),
    ("edge_queue", &["outbox", "io"]),
    ("outbox", &[]),
    ("tracer", &["io"]),
    ("io", &[]),
];

/// The maximum number of fields of a type of the coordinator. Rows and settings are exempt: they are flat lists.
const MOST_FIELDS: usize = 12;
const LISTS: &[&str] = &["Settings", "JobRow", "ItemRow", "InstanceRow"];

/// Rooms whose types keep their fields private: every change goes through a method with a name.
const CLOSED: &[&str] = &["job/parts", "workers", "schedule", "cluster"];
/// Types of closed rooms that only carry data between rooms.
const CARRIERS: &[&str] = &[
    "Arrival",
    "Attaching",
    "ClockRead",
    "Damaged",
    "Member",
    "PendingRequest",
    "Planned",
    "Registering",
    "Told",
    "Torn",
    "Unheeded",
];
/// Types of closed rooms whose fields are parts that keep their own fields private.
const WHOLES: &[&str] = &["Schedule", "Worker", "WorkersTurn"];

const ROOT: &str = "src/coordinator/";

/// Returns the room of a file: its folder, or the file itself if it is outside the folders.
fn room(file: &str) -> &str {
    let name = file.strip_prefix(ROOT).unwrap_or(file).trim_end_matches(".rs");
    let named =
        |room: &&&str| name == **room || name.strip_prefix(**room).is_some_and(|rest| rest.starts_with('/'));
    let rooms: Vec<&str> = ROOMS.iter().map(|(room, _)| *room).collect();
    rooms.iter().filter(named).max_by_key(|room| room.len()).copied().unwrap_or("lib")
}

/// Imports from a room that are not allowed.
fn trespasses(files: &Files) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = ROOMS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (from, to) in arrows(files, &format!("{ROOT}lib.rs")) {
        for (to, (line, path)) in to.iter().filter(|(to, _)| to.starts_with(ROOT)) {
            let (here, there) = (room(&from), room(to));
            let may = here == there || allowed.get(here).is_some_and(|rooms| rooms.contains(&there));
            if here != "lib" && !may {
                wrong.push(format!("{from}:{line} says {path}: {here} may not know {there}"));
            }
        }
    }
    wrong
}

/// Types with more fields than allowed.
fn crowded(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| file.starts_with(ROOT)) {
        let mut open: Option<(&str, usize)> = None;
        for line in text.lines() {
            let words = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            if let Some(name) = words.strip_prefix("struct ").filter(|_| line.ends_with('{')) {
                open = Some((name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(name), 0));
            } else if line == "}" {
                if let Some((name, fields)) = open.take()
                    && fields > MOST_FIELDS
                    && !LISTS.contains(&name)
                {
                    wrong.push(format!("{file}: {name} has {fields} fields"));
                }
            } else if let Some((_, fields)) = &mut open {
                let field = line.starts_with("    ") && !line.starts_with("     ") && line.contains(": ");
                *fields += usize::from(field && !line.trim_start().starts_with("//"));
            }
        }
    }
    wrong
}

/// Visible fields of types of closed rooms.
fn open_fields(files: &Files) -> Vec<String> {
    let is_seen = |field: &str| ["pub ", "pub("].into_iter().any(|word| field.starts_with(word));
    let mut wrong = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| CLOSED.contains(&room(file))) {
        let mut open: Option<&str> = None;
        for line in text.lines() {
            let words = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            if let Some(words) = words.strip_prefix("struct ") {
                let name = words
                    .split(|c: char| !c.is_alphanumeric())
                    .next()
                    .filter(|name| ![CARRIERS, WHOLES].concat().contains(name));
                open = name.filter(|_| line.ends_with('{'));
                let fields = words.split_once('(').map(|(_, fields)| fields);
                if let Some(name) =
                    name.filter(|_| fields.is_some_and(|fields| fields.split(", ").any(is_seen)))
                {
                    wrong.push(format!("{file}: a field of {name} is seen"));
                }
            } else if line == "}" {
                open = None;
            } else if let Some(name) = open
                && is_seen(line.trim_start())
            {
                let field = line.split(": ").next().and_then(|field| field.rsplit(' ').next());
                wrong.push(format!("{file}: {name}.{} is seen", field.unwrap_or(line)));
            }
        }
    }
    wrong
}

#[test]
fn rooms_of_the_coordinator_know_what_is_below_them() {
    let wrong = trespasses(&ours());
    assert!(wrong.is_empty(), "\n{}\n\nhand it in as a value, or on as a change\n", wrong.join("\n"));
}

#[test]
fn a_type_of_the_coordinator_is_seen_at_once() {
    let wrong = crowded(&ours());
    assert!(wrong.is_empty(), "\n{}\n\ngroup what changes together\n", wrong.join("\n"));
}

#[test]
fn what_happens_to_a_part_has_a_name() {
    let wrong = open_fields(&ours());
    assert!(wrong.is_empty(), "\n{}\n\nsay what happens to it by a method\n", wrong.join("\n"));
}

#[test]
fn an_open_field_is_found() {
    let text = "pub(crate) struct Told {\n    pub(crate) items: u8,\n}\n\npub(crate) struct Roster {\n    pub(crate) \
                dead: BTreeSet<crate::WorkerId>,\n    hosted: u8,\n}\n\nimpl Roster {\n    pub(crate) fn is_idle(&self) -> \
                bool {\n        true\n    }\n}\n\nstruct Index(pub(super) u8);\n";
    let files: Files = [("job/parts/roster.rs", text), ("job/turn.rs", text)]
        .map(|(name, text)| (format!("{ROOT}{name}"), text.to_owned()))
        .into();
    let file = "src/coordinator/job/parts/roster.rs";
    let wrong = [format!("{file}: Roster.dead is seen"), format!("{file}: a field of Index is seen")];
    assert_eq!(open_fields(&files), wrong);
}

#[test]
fn a_trespass_and_a_crowd_are_found() {
    let crowd: String = (0..13).map(|n| format!("    pub(crate) a{n}: u8,\n")).collect();
    let files: Files = [
        ("lib.rs", "mod io;\nmod workers;\nmod job;".to_owned()),
        ("io/mod.rs", "pub struct Io;".to_owned()),
        ("workers/mod.rs", "use crate::io::Io;\nuse crate::job::Jobs;\npub struct Workers(Io);".to_owned()),
        ("job/mod.rs", format!("use crate::io::Io;\npub(crate) struct Jobs {{\n{crowd}}}")),
    ]
    .map(|(name, text)| (format!("{ROOT}{name}"), text))
    .into();
    let wrong = trespasses(&files);
    assert_eq!(wrong, ["src/coordinator/workers/mod.rs:2 says crate::job::Jobs: workers may not know job"]);
    assert_eq!(crowded(&files), ["src/coordinator/job/mod.rs: Jobs has 13 fields"]);
}
