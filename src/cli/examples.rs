//! What may be typed, for each command: below its help, in the manual and in the guide.

use clap::Command;

/// Each command with its examples; a test parses all of them.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("dev", &["rosterd dev", "rosterd dev --listen 127.0.0.1:8800"]),
    (
        "serve",
        &[
            "rosterd serve --data-dir /var/lib/rosterd --listen 127.0.0.1:7700",
            "rosterd serve --registry zookeeper --zk zk1:2181,zk2:2181,zk3:2181 --namespace prod --config /etc/rosterd/rosterd.toml",
            "rosterd serve --config /etc/rosterd/rosterd.toml --check",
        ],
    ),
    ("probe", &["rosterd probe --server http://127.0.0.1:7700"]),
    ("info", &["rosterd info", "rosterd info -o json"]),
    (
        "exec",
        &[
            "rosterd exec --job backup --cron '0 0 2 * * ?' --items 2 --parameters 0=users,1=orders -- ./backup.sh",
            "rosterd exec --server https://c1:7700 --server https://c2:7700 --job report --slots 4 -- python3 report.py",
        ],
    ),
    (
        "jobs list",
        &["rosterd jobs list", "rosterd jobs list --filter report -o wide", "rosterd jobs list -o name"],
    ),
    ("jobs show", &["rosterd jobs show report", "rosterd jobs show report --spec > report.yaml"]),
    ("jobs next", &["rosterd jobs next report --count 20"]),
    ("jobs stats", &["rosterd jobs stats report --last 5m,1h,1d"]),
    ("jobs apply", &["rosterd jobs apply -f report.yaml", "rosterd jobs apply -f report.yaml --dry-run"]),
    ("jobs diff", &["rosterd jobs diff -f report.yaml --exit-code"]),
    (
        "jobs trigger",
        &["rosterd jobs trigger report --wait", "rosterd jobs trigger report --items 0,3 --after-current"],
    ),
    ("jobs pause", &["rosterd jobs pause report"]),
    ("jobs resume", &["rosterd jobs resume report"]),
    (
        "jobs disable",
        &[
            "rosterd jobs disable report --cancel",
            "rosterd jobs disable report --item 3",
            "rosterd jobs disable report --machine 10.0.0.7",
        ],
    ),
    ("jobs enable", &["rosterd jobs enable report", "rosterd jobs enable report --item 3"]),
    ("jobs cancel", &["rosterd jobs cancel report --item 3"]),
    ("jobs remove", &["rosterd jobs remove report", "rosterd jobs remove report --cancel --yes"]),
    ("items", &["rosterd items report", "rosterd items report/3 --history --since 1d"]),
    ("items list", &["rosterd items list report -o wide"]),
    ("explain", &["rosterd explain report/3"]),
    ("instances", &["rosterd instances", "rosterd instances report"]),
    ("instances list", &["rosterd instances list -o wide"]),
    ("instances drain", &["rosterd instances drain 10.0.0.7@-@3f0c1e --grace 5m"]),
    ("instances shutdown", &["rosterd instances shutdown 10.0.0.7@-@3f0c1e --job report"]),
    ("machines", &["rosterd machines", "rosterd machines report"]),
    ("machines list", &["rosterd machines list --by-job"]),
    (
        "machines disable",
        &["rosterd machines disable 10.0.0.7", "rosterd machines disable 10.0.0.7 --cancel"],
    ),
    ("machines enable", &["rosterd machines enable 10.0.0.7"]),
    ("machines shutdown", &["rosterd machines shutdown 10.0.0.7 --yes"]),
    ("machines remove", &["rosterd machines remove 10.0.0.7"]),
    ("cluster", &["rosterd cluster"]),
    ("cluster list", &["rosterd cluster list -o wide"]),
    (
        "runs",
        &[
            "rosterd runs report --since 2h",
            "rosterd runs report/3 --outcome failed",
            "rosterd runs --since yesterday --until today",
        ],
    ),
    ("runs list", &["rosterd runs list report -o json"]),
    ("runs show", &["rosterd runs show report/3", "rosterd runs show report/3 --token 1795745498876009"]),
    ("logs", &["rosterd logs report/3", "rosterd logs report/3 --follow"]),
    ("fires", &["rosterd fires report --since 1d --not-run", "rosterd fires report/3"]),
    ("fires list", &["rosterd fires list report"]),
    (
        "events",
        &[
            "rosterd events report --since 1d",
            "rosterd events --kind worker",
            "rosterd events --principal ann",
        ],
    ),
    ("events list", &["rosterd events list --limit 200"]),
    ("alarms list", &["rosterd alarms list", "rosterd alarms list --all"]),
    (
        "alarms silence",
        &["rosterd alarms silence deploy --job 'report-*' --for 2h --comment 'we move the database'"],
    ),
    ("alarms unsilence", &["rosterd alarms unsilence deploy"]),
    ("alarms test", &["rosterd alarms test --receiver ops"]),
    (
        "verify",
        &[
            "rosterd verify --since 1d --owners",
            "rosterd verify --data-dir /var/lib/rosterd --job report",
            "rosterd verify --run-log a.log b.log",
        ],
    ),
    ("conformance", &["rosterd conformance -- python3 worker.py", "rosterd conformance --list"]),
    ("watch", &["rosterd watch", "rosterd watch report --json"]),
    ("top", &["rosterd top", "rosterd top --server https://c1:7700"]),
    ("doctor", &["rosterd doctor", "rosterd doctor --config /etc/rosterd/rosterd.toml"]),
    ("dump", &["rosterd dump report", "rosterd dump report --json"]),
    ("backup", &["rosterd backup --out jobs-2026-11-23.backup"]),
    (
        "restore",
        &[
            "rosterd restore jobs-2026-11-23.backup --overwrite --dry-run",
            "rosterd restore jobs-2026-11-23.backup --overwrite",
        ],
    ),
    ("export", &["rosterd export jobs.json --data-dir /var/lib/rosterd"]),
    ("import", &["rosterd import jobs.json --zk zk1:2181 --dry-run"]),
    (
        "import elastic-job",
        &[
            "rosterd import elastic-job --zk zk1:2181 --from-namespace elastic-job --to zk1:2181 --namespace prod --dry-run",
        ],
    ),
    ("context list", &["rosterd context list"]),
    ("context show", &["rosterd context show prod"]),
    (
        "context add",
        &[
            "rosterd context add prod --server https://c1:7700,https://c2:7700 --ca ca.pem --credential ~/.rosterd-secret",
        ],
    ),
    ("context use", &["rosterd context use prod"]),
    ("context remove", &["rosterd context remove prod"]),
    (
        "credentials add",
        &["rosterd credentials add --credentials credentials.toml --role worker --jobs 'report-*' team-a"],
    ),
    ("credentials list", &["rosterd credentials list --credentials credentials.toml"]),
    ("credentials revoke", &["rosterd credentials revoke --credentials credentials.toml team-a"]),
    (
        "cron next",
        &[
            "rosterd cron next '0 0 2 ? * MON-FRI' --time-zone Europe/Berlin",
            "rosterd cron next '@every 5m' --count 3",
        ],
    ),
    ("plan", &["rosterd plan --strategy STICKY --job report --items 10 --instances A,B,C"]),
    ("completion", &["rosterd completion bash > ~/.local/share/bash-completion/completions/rosterd"]),
    ("man", &["rosterd man ~/.local/share/man/man1"]),
];

/// Of a command, by the words after the program's name.
fn of(path: &str) -> Option<&'static [&'static str]> {
    EXAMPLES.iter().find(|(name, _)| *name == path).map(|(_, examples)| *examples)
}

/// The commands with their examples.
pub(super) fn added(command: Command) -> Command {
    below(command, "")
}

fn below(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}").trim().to_owned();
        command.mut_subcommand(name, |sub| below(sub, &path))
    });
    let Some(examples) = of(path) else { return command };
    let heading = if examples.len() == 1 { "Example" } else { "Examples" };
    let lines: String = examples.iter().map(|example| format!("\n  {example}")).collect();
    let own = command.get_after_help().map(|own| format!("\n\n{own}")).unwrap_or_default();
    command.after_help(format!("{heading}:{lines}{own}"))
}
