//! The forms that scripts rely on.

use clap::{CommandFactory as _, Parser as _};
use rosterd::cli::Cli;

fn parses(line: &str) {
    if let Err(error) = Cli::try_parse_from(line.split_whitespace()) {
        panic!("{line}\n{error}");
    }
}

fn refused(line: &str, because: &str) {
    let refused = Cli::try_parse_from(line.split_whitespace()).expect_err(line).to_string();
    assert!(refused.contains(because), "{line}\n{refused}");
}

#[test]
fn the_definition_holds_together() {
    Cli::command().debug_assert();
}

#[test]
fn the_fixed_forms_parse() {
    parses("rosterd dev");
    parses("rosterd serve --data-dir DIR --listen 127.0.0.1:7700");
    parses("rosterd serve --registry zookeeper --zk h1:2181,h2:2181 --namespace NS --listen 127.0.0.1:7700");
    parses("rosterd probe --server http://127.0.0.1:7700");
    parses(
        "rosterd exec --server http://a:1 --server http://b:2 --namespace NS --slots 3 --job NAME --cron * \
         --items 2 --parameters 0=A,1=B --failover -- PROGRAM --its-own --flags",
    );
    parses("rosterd exec --job NAME -- PROGRAM");
    parses("rosterd cron next EXPR --time-zone UTC --from 2026-11-21T00:00:00Z --count 3 --json");
    parses("rosterd plan --strategy S --job NAME --items 3 --instances A,B,C --current FILE --json");
    parses("rosterd dump --server http://127.0.0.1:7700 --job NAME --json");
}

#[test]
fn the_other_forms_parse() {
    for line in [
        "rosterd serve --config f.toml --set lease=4s --check",
        "rosterd jobs list --filter word --json",
        "rosterd job show words --spec",
        "rosterd jobs apply -f -",
        "rosterd jobs diff -f f.yaml --exit-code",
        "rosterd jobs trigger words --item 1,2 --item 4 --after-current",
        "rosterd jobs disable words --machine 10.0.0.7 --cancel --server http://a:1",
        "rosterd jobs enable words --instance 10.0.0.7@-@w-1",
        "rosterd jobs cancel words --item 3",
        "rosterd jobs remove words --cancel",
        "rosterd instances --job words",
        "rosterd instances drain 10.0.0.7@-@w-1 --grace 30s",
        "rosterd instances shutdown 10.0.0.7@-@w-1 --job words",
        "rosterd runs --job words --item 1 --outcome timed_out --since 2h --until 2026-11-21T00:00:00Z",
        "rosterd fires --job words --not-run",
        "rosterd watch --job words --json",
        "rosterd completion zsh",
        "rosterd items words --history --item 1",
        "rosterd items list words",
        "rosterd runs words/1",
        "rosterd run show words/1 --token 17",
        "rosterd logs words/1 --follow",
        "rosterd fires words/1 -o yaml",
        "rosterd events list words",
        "rosterd instances list words -o name",
        "rosterd cluster list -o wide --color never --utc",
        "rosterd jobs get words",
        "rosterd jobs delete words --yes",
        "rosterd status",
        "rosterd exec --job NAME --run-timeout 1h30m -- PROGRAM",
    ] {
        parses(line);
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    refused("rosterd exec --job NAME --allow-job-command -- PROGRAM", "cannot be used with");
    refused("rosterd exec -- PROGRAM", "--job");
    refused("rosterd exec --job NAME --config f --cron x -- PROGRAM", "cannot be used with");
    refused("rosterd exec --job NAME --slots 0 -- PROGRAM", "1..=4096");
    refused("rosterd exec --job NAME --failover --no-monitor-execution -- PROGRAM", "cannot be used with");
    refused("rosterd jobs disable words --item 1 --instance a", "cannot be used with");
    refused("rosterd jobs list --json -o yaml", "cannot be used with");
    refused("rosterd jobs list --timeout 0s", "more than nothing");
    refused("rosterd cron next x --from yesterday", "RFC 3339");
    refused("rosterd plan --job a/b --items 1 --instances A", "not a name");
}
