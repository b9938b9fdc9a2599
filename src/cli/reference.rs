//! The guide's page of the command line, written from the commands themselves.

use std::fmt::Write as _;

use super::{Code, command};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/src/cli.md");

fn markdown() -> String {
    let mut out = String::from(
        "# Command line\n\n<!-- Generated from the commands in src/cli: cargo xtask docs -->\n\n\
         All commands of `rosterd`, each with its own flags. `--help` says the same, and `rosterd man DIR` writes it as manual\n\
         pages. Names are completed by the shell, those of jobs as well: `source <(rosterd completion bash)`.\n\n\
         Lists are tables on a terminal, cut to its width, with times such as `12s ago`; a pipe gets whole rows with dates in UTC.\n\
         `-o json`, `yaml`, `wide` and `name` are other forms. Flags of *Connection* may stand in the environment or in a\n\
         [context](#rosterd-context-add).\n\n",
    );
    let mut root = command();
    // So that each command has what all take.
    root.build();
    let mut shared: Vec<clap::Arg> = Vec::new();
    let mut text = String::new();
    below(&root, "rosterd", &mut text, &mut shared);
    out += "## Flags of several commands\n\n| flag | value | meaning |\n| --- | --- | --- |\n";
    for arg in &shared {
        out += &row(arg);
    }
    out += "\n";
    out += &text;
    out += "## Exit codes\n\n```text\n";
    out += super::failure::EXIT_CODES.trim_start_matches("Exit codes:\n");
    out += "\n```\n\n## Codes\n\nThose of the command line itself; all others are [the coordinator's](errors.md).\n\n\
            | code | meaning and remedy |\n| --- | --- |\n";
    for (code, meaning) in Code::ALL {
        let _ = writeln!(out, "| `{}` | {} |", code.name(), escaped(meaning));
    }
    out
}

fn below(command: &clap::Command, path: &str, out: &mut String, shared: &mut Vec<clap::Arg>) {
    let subs: Vec<&clap::Command> =
        command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
    if path != "rosterd" && !command.is_subcommand_required_set() {
        section(command, path, out, shared);
    }
    for sub in subs {
        below(sub, &format!("{path} {}", sub.get_name()), out, shared);
    }
}

fn section(command: &clap::Command, path: &str, out: &mut String, shared: &mut Vec<clap::Arg>) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(out, "## {path}\n\n{about}.\n\n");
    let visible =
        |arg: &&clap::Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let mut rows = String::new();
    for arg in command.get_arguments().filter(visible) {
        match arg.get_help_heading() {
            Some("Connection" | "Output") => {
                if !shared.iter().any(|known| {
                    known.get_id() == arg.get_id()
                        && known.get_help().map(ToString::to_string)
                            == arg.get_help().map(ToString::to_string)
                }) {
                    shared.push(arg.clone());
                }
            }
            _ => rows += &row(arg),
        }
    }
    if !rows.is_empty() {
        let _ = write!(out, "| argument | value | meaning |\n| --- | --- | --- |\n{rows}\n");
    }
    if let Some(after) = command.get_after_help() {
        let _ = write!(out, "```text\n{}\n```\n\n", after.to_string().trim_end());
    }
}

fn row(arg: &clap::Arg) -> String {
    let value = arg
        .get_value_names()
        .map(|names| names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" "));
    let value = value.filter(|_| arg.get_action().takes_values()).unwrap_or_default();
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("`-{short}`, `--{long}`"),
        (None, Some(long)) => format!("`--{long}`"),
        _ => format!("`{value}`"),
    };
    let value =
        if arg.get_long().is_some() && !value.is_empty() { format!("`{value}`") } else { String::new() };
    let mut meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let words: Vec<_> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if !words.is_empty() && arg.get_action().takes_values() {
        let _ = write!(meaning, ": {}", words.join(", "));
    }
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if !defaults.is_empty() && !arg.is_hide_default_value_set() && arg.get_action().takes_values() {
        let _ = write!(meaning, " [default: {}]", defaults.join(","));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(meaning, " [{}]", variable.to_string_lossy());
    }
    format!("| {name} | {value} | {} |\n", escaped(&meaning))
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

#[test]
fn the_guides_page_is_that_of_the_commands() {
    let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(committed == markdown(), "docs/guide/src/cli.md is out of date; run: cargo xtask docs");
}

#[test]
#[ignore = "writes docs/guide/src/cli.md"]
fn write_the_guides_page() {
    std::fs::write(PAGE, markdown()).unwrap();
}
