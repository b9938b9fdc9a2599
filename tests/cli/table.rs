//! Properties of every command: its examples, its width, its colors, its forms.

use std::collections::BTreeSet;
use std::process::Command;

use clap::Parser as _;
use rosterd::cli::{Cli, codes, command as all};

use crate::admin::Served;
use crate::binary::{Ran, command};

/// For each command that calls a coordinator, a valid line, and whether it is a list.
const ASKING: &[(&str, &str, bool)] = &[
    ("info", "info", false),
    ("jobs list", "jobs list", true),
    ("jobs show", "jobs show words", false),
    ("jobs next", "jobs next words", true),
    ("jobs stats", "jobs stats words", true),
    ("jobs trigger", "jobs trigger words", false),
    ("jobs pause", "jobs pause words", false),
    ("jobs resume", "jobs resume words", false),
    ("jobs disable", "jobs disable words --item 2", false),
    ("jobs enable", "jobs enable words", false),
    ("jobs cancel", "jobs cancel words --item 3", false),
    ("jobs remove", "jobs remove words --cancel --yes", false),
    ("items", "items words", true),
    ("items list", "items list words --history", true),
    ("explain", "explain words/1", false),
    ("instances", "instances", true),
    ("instances list", "instances list words", true),
    ("instances drain", "instances drain 10.0.0.7@-@w-1", false),
    ("instances shutdown", "instances shutdown 10.0.0.7@-@w-1 --job words", false),
    ("machines", "machines", true),
    ("machines list", "machines list --by-job", true),
    ("machines disable", "machines disable 10.0.0.7", false),
    ("machines enable", "machines enable 10.0.0.7", false),
    ("machines shutdown", "machines shutdown 10.0.0.7 --yes", false),
    ("cluster", "cluster", true),
    ("cluster list", "cluster list", true),
    ("runs", "runs words", true),
    ("runs list", "runs list words/1", true),
    ("runs show", "runs show words/0", false),
    ("fires", "fires words", true),
    ("fires list", "fires list words/0", true),
    ("events", "events", true),
    ("events list", "events list words", true),
    ("dump", "dump words", false),
    ("cron next", "cron next '@daily' --time-zone Europe/Berlin --count 3", true),
    ("plan", "plan --job words --items 5 --instances 10.0.0.7@-@a,10.0.0.8@-@b", true),
    ("context list", "context list", true),
];

/// Commands that write no result, need a service that the stub lacks, or run until they are stopped: each has tests of
/// its own.
const OTHERS: &[&str] = &[
    "dev",
    "serve",
    "probe",
    "exec",
    "jobs apply",
    "jobs diff",
    "machines remove",
    "logs",
    "alarms list",
    "alarms silence",
    "alarms unsilence",
    "alarms test",
    "verify",
    "conformance",
    "watch",
    "top",
    "doctor",
    "backup",
    "restore",
    "export",
    "import",
    "import elastic-job",
    "context show",
    "context add",
    "context use",
    "context remove",
    "credentials add",
    "credentials list",
    "credentials revoke",
    "completion",
    "man",
];

/// Each command, by its words.
fn commands() -> Vec<(String, clap::Command)> {
    fn below(command: &clap::Command, path: &str, out: &mut Vec<(String, clap::Command)>) {
        if !path.is_empty() && !command.is_subcommand_required_set() {
            out.push((path.to_owned(), command.clone()));
        }
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            below(sub, format!("{path} {}", sub.get_name()).trim(), out);
        }
    }
    let mut out = Vec::new();
    below(&all(), "", &mut out);
    out
}

/// The words of a line as a shell splits it.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    for c in line.chars() {
        match c {
            '\'' => (quoted, any) = (!quoted, true),
            ' ' if !quoted => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => word.push(c),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}

#[test]
fn every_command_has_examples_that_parse() {
    for (path, command) in commands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let after = help.split_once(":\n").filter(|(heading, _)| heading.starts_with("Example"));
        let Some((_, after)) = after else { panic!("rosterd {path} has no example below its help") };
        let examples: Vec<&str> = after.lines().map_while(|line| line.strip_prefix("  ")).collect();
        assert!(!examples.is_empty(), "{path}");
        for example in examples {
            let line = example.split(" > ").next().unwrap_or_default();
            let words = words(line);
            assert!(words.join(" ").starts_with(&format!("rosterd {path}")), "{path}: {example}");
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{example}\n{error}");
            }
        }
    }
}

#[test]
fn every_command_is_tried_here_or_elsewhere() {
    let known: BTreeSet<&str> = ASKING.iter().map(|(path, ..)| *path).chain(OTHERS.iter().copied()).collect();
    let there: BTreeSet<String> = commands().into_iter().map(|(path, _)| path).collect();
    let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
    assert_eq!(there, known);
}

/// One flag means one thing: its value has the same name in all commands.
#[test]
fn a_flag_means_the_same_everywhere() {
    let mut meanings = std::collections::BTreeMap::<String, (String, String)>::new();
    for (path, command) in commands() {
        for arg in command.get_arguments() {
            let (Some(flag), Some(names)) = (arg.get_long(), arg.get_value_names()) else { continue };
            // These differ by noun, and `credentials` is a file.
            if ["log", "item", "items", "data-dir", "out"].contains(&flag) || !arg.get_action().takes_values()
            {
                continue;
            }
            let name = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ").replace(",…", "");
            let name = name.split(',').next().unwrap_or_default().to_owned();
            let entry = meanings.entry(flag.to_owned()).or_insert_with(|| (name.clone(), path.clone()));
            assert_eq!(entry.0, name, "--{flag} of {path} and of {}", entry.1);
        }
    }
}

/// Runs a line in a terminal of eighty columns.
fn in_terminal(served: &Served, line: &str, more: &[(&str, &str)]) -> String {
    let mut script = Command::new("script");
    script.args([
        "-qec",
        &format!("stty cols 80 rows 40; {} {line}", env!("CARGO_BIN_EXE_rosterd")),
        "/dev/null",
    ]);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROSTERD_")) {
        script.env_remove(name);
    }
    script.env_remove("NO_COLOR").env("TERM", "xterm").env("SHELL", "/bin/sh");
    script
        .env("ROSTERD_SERVER", &served.url)
        .env("ROSTERD_CREDENTIAL", "s3cret")
        .env("XDG_CONFIG_HOME", "/nowhere");
    script.envs(more.iter().copied()).stdin(std::process::Stdio::null());
    String::from_utf8(script.output().expect("script starts").stdout).unwrap()
}

/// A text without its colors.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => drop(chars.by_ref().find(|c| *c == 'm')),
            '\r' => {}
            c => out.push(c),
        }
    }
    out
}

#[test]
fn no_line_is_wider_than_a_terminal_of_eighty_columns_and_colors_can_be_switched_off() {
    let served = Served::start();
    for (path, line, list) in ASKING {
        let shown = in_terminal(&served, line, &[]);
        let text = plain(&shown);
        assert!(!text.trim().is_empty(), "{path}");
        if !["dump", "jobs show"].contains(path) {
            for row in text.lines() {
                assert!(row.chars().count() <= 80, "{path}: {row:?}\n{text}");
            }
        }
        if *list && *path != "context list" {
            assert!(shown.contains('\u{1b}'), "{path} has no colors: {shown:?}");
        }
        let none = in_terminal(&served, line, &[("NO_COLOR", "1")]);
        assert!(!none.contains('\u{1b}'), "{path}: {none:?}");
        let none = in_terminal(&served, &format!("--color never {line}"), &[]);
        assert!(!none.contains('\u{1b}'), "{path}: {none:?}");
    }
}

#[test]
fn a_pipe_gets_whole_rows_and_every_form_can_be_read() {
    let served = Served::start();
    let run = |line: &str, more: &[&str]| -> Ran {
        let mut command = command();
        command.args(words(line)).args(more).env("XDG_CONFIG_HOME", "/nowhere");
        command.env("ROSTERD_SERVER", &served.url).env("ROSTERD_CREDENTIAL", "s3cret");
        command.output().unwrap().into()
    };
    for (path, line, list) in ASKING {
        let text = run(line, &[]);
        assert_eq!(text.code, Some(0), "{path}: {}", text.err);
        assert!(
            !text.out.contains('\u{1b}') && !text.out.contains('…')
                || *path == "runs"
                || path.starts_with("runs "),
            "{path}: {}",
            text.out
        );
        let json = run(line, &["-o", "json"]);
        assert_eq!(json.code, Some(0), "{path}: {}", json.err);
        let value: serde_json::Value =
            serde_json::from_str(&json.out).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(json.out, run(line, &["--json"]).out, "{path}");
        let yaml = run(line, &["-o", "yaml"]);
        assert_eq!(yaml.code, Some(0), "{path}: {}", yaml.err);
        assert!(!yaml.out.is_empty(), "{path}");
        if *list {
            let names = run(line, &["-o", "name"]).ok();
            let rows = value
                .as_array()
                .map_or_else(|| value["assignment"].as_object().map_or(0, serde_json::Map::len), Vec::len);
            assert_eq!(names.lines().count(), rows, "{path}: {names}");
            assert!(names.lines().all(|name| !name.is_empty() && !name.contains("  ")), "{path}: {names}");
            assert_eq!(run(line, &["-o", "wide"]).code, Some(0), "{path}");
        }
    }
}

#[test]
fn nothing_is_colored_in_a_pipe_unless_it_is_asked_for() {
    let served = Served::start();
    assert!(!served.rosterd(&["jobs", "list"]).ok().contains('\u{1b}'));
    assert!(served.rosterd(&["jobs", "list", "--color", "always"]).ok().contains("\u{1b}[32menabled"));
}

#[test]
fn each_code_of_the_command_line_says_what_to_do() {
    for (code, meaning) in codes() {
        assert!(meaning.len() > 20 && meaning.ends_with('.'), "{code}: {meaning}");
    }
}
