//! Dependency rules: the imports between the folders of `src`, which code reads clocks and the environment, which code
//! names nodes, how long a file may be. A plain scan of the text; each rule says what to do, and is itself tested
//! below.

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/modules.rs"]
mod modules;
#[path = "architecture/rooms.rs"]
mod rooms;
#[path = "architecture/scan.rs"]
mod scan;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use scan::{paths, scan};

/// Rooms that are crates, with a manifest in their folder: Cargo enforces their dependencies as well.
#[rustfmt::skip]
const CRATES: &[&str] = &[
    "runtime", "session", "wire", "registry", "history", "coordinator", "traces", "api", "conformance", "outbound",
    "alarms",
];

/// Which rooms each room of `src` may import by `crate::…`, besides itself. A path stands for all below it.
#[rustfmt::skip]
const ARROWS: &[(&str, &[&str])] = &[
    ("runtime", &[]),
    // It parses rules and receivers of alarms.
    ("config", &["alarms", "runtime"]),
    // It decides from incoming facts, sends, and never sees the coordinator.
    ("alarms", &["outbound", "runtime"]),
    ("registry", &["runtime"]),
    ("session", &[]),
    ("outbound", &[]),
    ("wire", &["session"]),
    // It moves jobs from store to store, and knows only the port of stores.
    ("transfer", &["registry", "runtime"]),
    ("coordinator", &["registry", "session", "runtime"]),
    ("history", &["runtime"]),
    // It is called for each step, and does not see its cause.
    ("traces", &["coordinator::event", "coordinator::tracer", "session::frame", "session::trace", "runtime"]),
    // It calls the coordinator and reads the history, and never sees the registry.
    ("api", &[
        "coordinator::handle", "session::frame", "session::code", "session::jobs", "session::limits",
        "session::machines", "session::trace", "history", "runtime", "wire", "alarms",
    ]),
    // A coordinator as a worker sees it: it speaks the protocol, and has nothing behind it.
    ("conformance", &["runtime", "wire::proto"]),
    // A client of the admin service like any other; it starts the app, and does not see its internals.
    ("cli", &["app", "config", "conformance", "wire::proto", "session::code", "runtime"]),
    ("app", &[
        "alarms", "api", "config", "coordinator", "history", "outbound", "registry", "runtime", "session", "traces", "transfer",
    ]),
];

/// Which rooms may use which libraries: the wire stops at the edge, SQL at the stores.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("tonic", &["api", "cli", "conformance", "traces", "wire"]),
    ("prost", &["api/grpc", "api/layers/methods", "cli", "conformance", "registry/embedded/journal", "wire"]),
    ("prost_types", &["api/grpc", "api/layers/methods", "cli", "conformance", "wire"]),
    ("opentelemetry_proto", &["traces"]),
    ("axum", &["api"]),
    ("clap", &["cli"]),
    ("rusqlite", &["history", "registry/embedded"]),
    ("aws_lc_rs", &["alarms/forms", "api/access/session"]),
    ("jsonwebtoken", &["app/oidc"]),
    // A command authenticates to a coordinator as a worker does.
    ("rosterd_client", &["cli/connection", "cli/dev", "cli/exec", "cli/identity", "cli/server"]),
    ("hyper", &["outbound"]),
    (
        "tokio_rustls",
        &[
            "outbound",
            "api/access/subject",
            "api/link",
            "api/tls",
            "app/credentials/edit",
            "history/postgres/tls",
        ],
    ),
    ("tokio_postgres", &["history/postgres"]),
    ("refinery_core", &["history/postgres/schema"]),
    ("webpki", &["api/access/subject"]),
    ("zookeeper_client", &["registry/zookeeper"]),
];

/// Generated types of the wire: the gRPC services, what serves and describes them, and the admin client.
const PROTO: &[&str] = &["api/grpc", "api/edge", "api/layers/methods", "cli", "conformance"];

/// Reads of a clock, and where they are allowed. tokio's clock stands still in tests, so an edge may measure with it.
const CLOCKS: &[(&str, &[&str])] = &[
    ("SystemTime::now", &["runtime/clock"]),
    ("Timestamp::now", &["cli"]),
    ("Zoned::now", &["cli"]),
    (
        "Instant::now",
        &[
            "runtime/clock",
            "app/doctor",
            "api/grpc",
            "api/layers",
            "cli/exec",
            "history/postgres/sender",
            "traces/export_tests",
        ],
    ),
];

/// Where tasks may be spawned: only where their panics and ends are handled. The tasks of the store in memory only
/// wait.
const SPAWNERS: &[&str] =
    &["runtime/tasks", "registry/zookeeper", "registry/memory", "cli/exec/child", "traces/export_tests"];

/// Reads of the environment.
const ENVIRONMENT: &[&str] =
    &["env::var", "env::vars", "env::var_os", "env::vars_os", "env::args", "env::current_dir"];
/// The last one is not in normal builds.
const ENVIRONMENT_READERS: &[&str] = &["config", "cli", "runtime/mutants"];

/// Parts of nodes' paths; REST has routes of the same names, as Elastic-Job has. A text that begins with one, or has
/// one after a `/`, names a node.
const NODES: &[&str] = &[
    "sharding/",
    "leader/",
    "servers/",
    "instances/",
    "guarantee/",
    "offset/",
    "trigger/",
    "election/",
    "failover/items",
    "systemTime",
    "rosterd/instances",
    "rosterd/policy",
    "rosterd/triggers",
    "rosterd/paused",
    "rosterd/incarnation",
    "rosterd/prepared",
];

/// The dependencies that the domain may have: no async, no I/O, no wire, no log, no randomness.
const DOMAIN: &[&str] = &[
    "serde",
    "serde_json",
    "saphyr-parser",
    "thiserror",
    "unicode-normalization",
    "jiff",
    "chrono",
    "cron",
    "flate2",
    "num-traits",
];

const LONG: usize = 400;
const TOO_LONG: usize = 600;

/// One file, as the rules see it.
struct Source {
    /// Below `src`, without `.rs` and `/mod`: `api/grpc/worker`.
    room: String,
    /// The code with comments and string contents blanked; as many lines as the file.
    code: String,
    /// The texts, and their lines.
    texts: Vec<(usize, String)>,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        let room = path.trim_end_matches(".rs").trim_end_matches("/mod").trim_end_matches("/lib").to_owned();
        let (code, texts) = scan(text);
        let code = one_crate(&code, room.split('/').next().unwrap_or_default());
        Self { room, code, texts }
    }

    fn top(&self) -> &str {
        self.room.split('/').next().unwrap_or_default()
    }

    fn is_in(&self, rooms: &[&str]) -> bool {
        rooms.iter().any(|room| is_below(&self.room, room, "/"))
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(number, line)| (number + 1, line))
    }
}

/// A room may be a crate of its own: its paths and those of the others are normalized as if all were one crate.
fn one_crate(code: &str, room: &str) -> String {
    let inside = if CRATES.contains(&room) { format!("crate::{room}::") } else { "crate::".to_owned() };
    let code = code.replace("crate::", &inside);
    CRATES
        .iter()
        .fold(code, |code, room| code.replace(&format!("rosterd_{room}::"), &format!("crate::{room}::")))
}

/// Whether `path` is `top` or below it.
fn is_below(path: &str, top: &str, separator: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(separator))
}

type Rule = fn(&[Source]) -> Vec<String>;

const RULES: &[(&str, Rule)] = &[
    ("arrows", arrows),
    ("escapes", escapes),
    ("libraries", libraries),
    ("proto", proto),
    ("clocks", clocks),
    ("spawns", spawns),
    ("environment", environment),
    ("nodes", nodes),
];

fn arrows(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources {
        let top = source.top();
        let Some((_, allowed)) = ARROWS.iter().find(|(room, _)| *room == top) else {
            if !["lib", "main"].contains(&top) {
                wrong.push(format!("src/{top}: a new room: say in ARROWS what it may know"));
            }
            continue;
        };
        for (line, path) in paths(&source.code, "crate") {
            if !is_below(&path, top, "::") && !allowed.iter().any(|room| is_below(&path, room, "::")) {
                wrong.push(format!(
                    "src/{}:{line}: {top} may not know crate::{path}, only {allowed:?}: hand it in as a value or \
                     through a trait of {top}'s own, joined in src/app",
                    source.room
                ));
            }
        }
    }
    wrong
}

/// `super` must not lead out of the room, past the rule above.
fn escapes(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| !["lib", "main"].contains(&source.top())) {
        let depth = source.room.split('/').count();
        for (number, line) in source.lines() {
            let supers = line.matches("super::").count();
            let inner = usize::from(line.starts_with(' '));
            if line.contains("super::super::") && supers >= depth + inner
                || line.contains("super::") && supers > depth
            {
                wrong.push(format!("src/{}:{number}: leaves its room by super: say crate::…", source.room));
            }
        }
    }
    wrong
}

fn libraries(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (library, rooms) in LIBRARIES {
        for source in sources.iter().filter(|source| !source.is_in(rooms)) {
            for (line, _) in paths(&source.code, library) {
                wrong.push(format!(
                    "src/{}:{line}: {library} is for {rooms:?} only: convert there",
                    source.room
                ));
            }
        }
    }
    wrong
}

fn proto(sources: &[Source]) -> Vec<String> {
    let outside = sources.iter().filter(|source| !source.is_in(PROTO) && source.top() != "wire");
    let said =
        outside.flat_map(|source| paths(&source.code, "crate").into_iter().map(move |at| (source, at)));
    let wrong = said.filter(|(_, (_, path))| is_below(path, "wire::proto", "::"));
    let tell = |(source, (line, _)): (&Source, (usize, String))| {
        format!("src/{}:{line}: the wire's types stop at {PROTO:?}: convert in api/grpc/convert", source.room)
    };
    wrong.map(tell).collect()
}

fn clocks(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (reading, rooms) in CLOCKS {
        for source in sources.iter().filter(|source| !source.is_in(rooms)) {
            for (number, _) in source.lines().filter(|(_, line)| line.contains(reading)) {
                wrong.push(format!(
                    "src/{}:{number}: {reading} is for {rooms:?} only: take `now` as an argument, or hold a \
                     runtime::clock::Clock",
                    source.room
                ));
            }
        }
    }
    wrong
}

fn spawns(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| !source.is_in(SPAWNERS)) {
        for (number, _) in source.lines().filter(|(_, line)| line.contains("tokio::spawn(")) {
            wrong.push(format!(
                "src/{}:{number}: a task that nobody owns dies unheard: give it to runtime::tasks::Tasks",
                source.room
            ));
        }
    }
    // The session's tasks start in one place, which ends the session if one panics.
    let zookeeper = sources.iter().filter(|source| source.is_in(&["registry/zookeeper"]));
    let spawned: usize = zookeeper.map(|source| source.code.matches("tokio::spawn(").count()).sum();
    if spawned > 1 {
        wrong
            .push(format!("src/registry/zookeeper: {spawned} spawned tasks: begin them with Core::run_part"));
    }
    wrong
}

fn environment(sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| !source.is_in(ENVIRONMENT_READERS)) {
        for (number, line) in
            source.lines().filter(|(_, line)| ENVIRONMENT.iter().any(|word| line.contains(word)))
        {
            let line = line.trim();
            wrong.push(format!(
                "src/{}:{number}: {line}: make it a field of config and hand it in",
                source.room
            ));
        }
    }
    wrong
}

fn nodes(sources: &[Source]) -> Vec<String> {
    let spells =
        |text: &str| NODES.iter().any(|node| text.starts_with(node) || text.contains(&format!("/{node}")));
    let mut wrong = Vec::new();
    for source in
        sources.iter().filter(|source| !source.is_in(&["registry/paths", "registry/tree_tests", "api/rest"]))
    {
        for (line, text) in source.texts.iter().filter(|(_, text)| spells(text)) {
            wrong.push(format!(
                "src/{}:{line}: {text:?} spells a node: give it a name in registry/paths.rs and ask for that",
                source.room
            ));
        }
    }
    wrong
}

/// The dependencies of the domain that it may not have.
fn domain(manifest: &str) -> Vec<String> {
    let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]"));
    let names = section.unwrap_or_default().lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    let foreign = names.filter(|name| !name.is_empty() && !name.starts_with('#') && !DOMAIN.contains(name));
    let tell = |name: &str| {
        format!(
            "src/domain/Cargo.toml: {name}: the domain decides and does nothing else; keep it in the shell around it"
        )
    };
    foreign.map(tell).collect()
}

/// Files that are long, and those that are too long.
fn lengths(files: &BTreeMap<String, usize>) -> (Vec<String>, Vec<String>) {
    let long = files.iter().filter(|(_, lines)| **lines > LONG);
    let (too_long, long): (Vec<_>, Vec<_>) = long.partition(|(_, lines)| **lines > TOO_LONG);
    let tell = |(path, lines): (&String, &usize)| format!("{path}: {lines} lines: look for its second idea");
    (long.into_iter().map(tell).collect(), too_long.into_iter().map(tell).collect())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let mut found = Vec::new();
    files(&src, &mut found);
    let below = found.iter().map(|path| (path.strip_prefix(&src).unwrap().to_str().unwrap(), path));
    let ours = below.filter(|(name, _)| !name.starts_with("domain/"));
    ours.map(|(name, path)| Source::new(name, &fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn every_room_keeps_its_rules() {
    let sources = sources();
    assert!(sources.len() > 50, "the scan finds the sources");
    let wrong: Vec<_> = RULES
        .iter()
        .flat_map(|(name, rule)| rule(&sources).into_iter().map(move |w| format!("{name}: {w}")))
        .collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn the_domain_is_built_from_nothing_that_acts() {
    let wrong = domain(&fs::read_to_string(root().join("src/domain/Cargo.toml")).unwrap());
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn no_file_is_too_long() {
    let mut found = Vec::new();
    for folder in ["src", "tests", "xtask/src", "clients/rust"] {
        files(&root().join(folder), &mut found);
    }
    let named = found.iter().map(|path| path.strip_prefix(root()).unwrap().display().to_string());
    let lines = found.iter().map(|path| fs::read_to_string(path).unwrap().lines().count());
    let (long, too_long) = lengths(&named.zip(lines).collect());
    println!("{}", long.join("\n"));
    assert!(too_long.is_empty(), "more than {TOO_LONG} lines:\n{}\n", too_long.join("\n"));
}

/// A minimal example must fit, comments and empty lines included.
#[test]
fn a_hello_worker_has_a_dozen_lines() {
    let languages = [
        "rust/examples/hello.rs",
        "python/examples/hello.py",
        "typescript/examples/hello.ts",
        "java/examples/src/main/java/io/rosterd/examples/Hello.java",
    ];
    for example in languages.map(|example| format!("clients/{example}")) {
        let text = fs::read_to_string(root().join(&example)).unwrap();
        assert!(text.contains("token") || text.contains("item"), "{example} says what it works on");
        assert!(text.lines().count() <= 12, "{example}: {} lines", text.lines().count());
    }
}

/// The tests and targets of fuzzing that a page names in the last column of its tables, and that do not exist.
fn shown_by(page: &str, sources: &[String]) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let column = rows.filter_map(|row| row.split('|').nth(4));
    let names = column.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let is_there = |name: &str| {
        let forms = [format!("fn {name}("), format!("Target::new(\"{name}\""), format!("\n    {name}: ")];
        sources.iter().any(|text| forms.iter().any(|form| text.contains(form)))
    };
    names.filter(|name| !is_there(name)).map(str::to_owned).collect()
}

#[test]
fn the_tests_that_the_page_of_threats_names_are_there() {
    let mut found = Vec::new();
    for folder in ["src", "tests", "clients/rust", "xtask"] {
        files(&root().join(folder), &mut found);
    }
    let sources: Vec<String> = found.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let page = fs::read_to_string(root().join("docs/guide/src/threats.md")).unwrap();
    let gone = shown_by(&page, &sources);
    assert!(gone.is_empty(), "docs/guide/src/threats.md names tests that are not there: {gone:?}");
    let shows = |row: &str| shown_by(row, &["fn there() {}\n    scene: f,".to_owned()]);
    assert_eq!(shows("| 1 | a | b | `there`, `gone` |"), ["gone"]);
    assert!(shows("| 1 | a `b` | c | `scene` |").is_empty());
    // A threat without a test needs a reason.
    let untried = page.lines().filter(|line| line.starts_with("| ") && line.ends_with("| |"));
    assert_eq!(untried.filter(|row| !row.contains("Not covered") && !row.contains("not covered")).count(), 0);
}

#[test]
fn each_rule_can_fail() {
    let broken: &[(&str, &str, &str)] = &[
        ("arrows", "registry/lib.rs", "use rosterd_coordinator::handle::Handle;"),
        ("arrows", "api/http/mod.rs", "use rosterd_registry::{DumpNode, Registry};"),
        (
            "arrows",
            "api/http/mod.rs",
            "use rosterd_coordinator::{\n    handle::Handle,\n    node::{Node, Other},\n};",
        ),
        ("arrows", "misc/mod.rs", ""),
        ("escapes", "session/frame.rs", "use super::super::registry::Registry;"),
        ("escapes", "session.rs", "use super::super::x;"),
        ("libraries", "coordinator/node.rs", "fn f() -> tonic::Status { todo!() }"),
        ("libraries", "registry/memory/mod.rs", "use rusqlite::Connection;"),
        ("proto", "session/frame.rs", "use rosterd_wire::proto::v1::Hello;"),
        ("clocks", "coordinator/node.rs", "let now = std::time::Instant::now();"),
        ("clocks", "history/writer.rs", "let now = SystemTime::now();"),
        ("spawns", "api/listen.rs", "tokio::spawn(async {});"),
        ("spawns", "registry/zookeeper/watching.rs", "tokio::spawn(f());\ntokio::spawn(g());"),
        ("environment", "api/listen.rs", "let port = std::env::var(\"PORT\");"),
        ("nodes", "coordinator/node.rs", "let path = format!(\"/{ns}/{job}/sharding/{item}\");"),
        ("nodes", "coordinator/node.rs", "const RAW: &str = r#\"leader/election\"#;"),
    ];
    for (name, path, text) in broken {
        let (_, rule) = RULES.iter().find(|(rule, _)| rule == name).unwrap();
        assert!(!rule(&[Source::new(path, text)]).is_empty(), "{name} lets this pass: {text}");
    }
    for (name, _) in RULES {
        assert!(broken.iter().any(|(rule, ..)| rule == name), "{name} is not tried");
    }
    assert_eq!(domain("[package]\n\n[dependencies]\nserde.workspace = true\ntokio = \"1\"\n\n[dev-dependencies]\nrand = \"0\"").len(), 1);
    let files = BTreeMap::from([("a".to_owned(), 600), ("b".to_owned(), 601), ("c".to_owned(), 400)]);
    let (long, too_long) = lengths(&files);
    assert_eq!((long.len(), too_long.len()), (1, 1));
}

#[test]
fn comments_texts_and_what_is_allowed_break_no_rule() {
    let fine: &[(&str, &str)] = &[
        ("registry/lib.rs", "// crate::coordinator\n/* std::env::var */ const A: &str = \"crate::api\";"),
        (
            "coordinator/node.rs",
            "use rosterd_session::{code::Code, frame::*};\nuse rosterd_registry::{Registry, ReadError};\nuse crate::job::Job;",
        ),
        ("api/mod.rs", "use rosterd_history::RunRow; fn f<'a>(c: char) -> bool { c == '\"' || c == '\\'' }"),
        (
            "registry/embedded/store.rs",
            "use super::super::paths::Paths;\nmod tests {\n    use super::super::Registry;\n}",
        ),
        ("cli/dump.rs", "let sharding = \"sharding\"; let s = \"a/b\\\"leader\";"),
    ];
    for (path, text) in fine {
        for (name, rule) in RULES {
            let wrong = rule(&[Source::new(path, text)]);
            assert!(wrong.is_empty(), "{name}: {wrong:?}");
        }
    }
}
