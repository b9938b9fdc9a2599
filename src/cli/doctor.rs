//! `rosterd doctor`: what is wrong with a coordinator's machine, or with the way to a coordinator, and what to do about it.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::failure::{Code, Failure, Result};
use super::output::form::Form;
use super::output::look::look;
use super::output::span::{human, time};
use super::output::table::{painted, style};
use super::output::text::{count, word, wrapped};
use super::server::{Client, Server};
use super::store::StoreArgs;
use crate::app::doctor::{Finding, Level, look as look_at_machine};
use rosterd_wire::proto::v1;

/// Where the guide is.
const GUIDE: &str = "https://github.com/rosterd/rosterd/blob/main/docs/guide/src/";
/// Clocks that differ by more make times in logs hard to compare.
const CLOCKS: Duration = Duration::from_secs(1);
/// How long a coordinator's port may take to accept.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Doctor {
    pub(crate) async fn run(self) -> Result {
        let mut found = Vec::new();
        if self.store.is_given() {
            match self.store.config() {
                Ok(config) => {
                    found.push(match crate::app::check(&config) {
                        Ok(()) => Finding::ok("configuration", "operate.md", "it is valid"),
                        Err(error) => {
                            Finding::bad("configuration", "operate.md", error.to_string(), "correct it")
                        }
                    });
                    found.extend(look_at_machine(&config).await);
                }
                Err(defects) => {
                    let what = defects.to_string();
                    found.push(Finding::bad(
                        "configuration",
                        "operate.md",
                        what,
                        "`rosterd serve --check` tries it again",
                    ));
                }
            }
        }
        found.extend(self.reach().await);
        let worst = found.iter().map(|found| found.level).max();
        let bad = found.iter().filter(|found| found.level == Level::Bad).count();
        self.form.show(|| found.iter().map(as_json).collect(), || text(&found))?;
        match worst {
            Some(Level::Bad) => {
                Err(Failure::failed(Code::Unhealthy, format!("{} found", count(bad, "problem"))))
            }
            _ => Ok(()),
        }
    }

    /// From here to the coordinators, and how they are.
    #[allow(clippy::disallowed_methods, reason = "two machines' clocks are compared")]
    async fn reach(&self) -> Vec<Finding> {
        const AREA: &str = "reachability";
        let refused = |failure: Failure| {
            vec![Finding::bad(
                AREA,
                "troubleshooting.md",
                failure.to_string(),
                "start a coordinator, or name one by --server",
            )]
        };
        let admin = match self.server.admin().await {
            Ok(admin) => admin,
            Err(failure) => return refused(failure),
        };
        let before = jiff::Timestamp::now();
        let info = admin
            .ask(v1::GetServerInfoRequest {}, |mut c: Client, q| async move { c.get_server_info(q).await });
        let info = match info.await {
            Ok(info) => info,
            Err(failure) => return refused(failure),
        };
        let after = jiff::Timestamp::now();
        let mut found = Vec::new();
        let (server, version) = (admin.server(), &info.version);
        found.push(Finding::ok(
            AREA,
            "operate.md",
            format!("{server} answers: version {version}, store {}", info.store),
        ));
        if *version != env!("CARGO_PKG_VERSION") {
            let what =
                format!("it is of version {version}, and this program of {}", env!("CARGO_PKG_VERSION"));
            found.push(Finding::warning(AREA, "upgrades.md", what, "use the same version"));
        }
        let health = word(info.health().as_str_name(), "SERVER_HEALTH_");
        found.push(match health.as_str() {
            "serving" => Finding::ok("health", "operate.md", "it is serving"),
            other => Finding::bad("health", "troubleshooting.md", format!("it is {other}"), "see its log"),
        });
        // It said so between the two.
        let middle = before.as_millisecond() + (after.as_millisecond() - before.as_millisecond()) / 2;
        let theirs = info.now.as_ref().map_or(middle, |now| time(now).0);
        let apart = Duration::from_millis(theirs.abs_diff(middle));
        let way = Duration::from_millis(after.as_millisecond().abs_diff(before.as_millisecond()));
        let what = format!("the coordinator's clock and this one are {} apart", human(apart));
        found.push(match apart > CLOCKS + way {
            true => Finding::warning(
                "clock",
                "time-zones.md",
                what,
                "set both by NTP (chrony, systemd-timesyncd)",
            ),
            false => Finding::ok("clock", "time-zones.md", what),
        });
        if let Some(history) = info.history.as_ref().filter(|history| !history.trouble.is_empty()) {
            found.push(Finding::bad(
                "history",
                "history.md",
                history.trouble.clone(),
                "mend the database; rows wait meanwhile",
            ));
        }
        found.extend(others(&admin).await);
        found
    }
}

/// Whether each coordinator of the cluster can be reached from here, under the URL that workers get.
async fn others(admin: &super::server::Admin) -> Vec<Finding> {
    let call = |mut c: Client, q| async move { c.list_coordinators(q).await };
    let Ok(answer) = admin.ask(v1::ListCoordinatorsRequest {}, call).await else { return Vec::new() };
    let mut found = Vec::new();
    for row in answer.coordinators.iter().filter(|row| !row.asked) {
        let bare = row.url.split("://").last().unwrap_or_default().trim_end_matches('/').to_owned();
        let reached = tokio::time::timeout(PATIENCE, TcpStream::connect(&bare)).await;
        found.push(match reached {
            Ok(Ok(_)) => Finding::ok("reachability", "cluster.md", format!("{} can be reached", row.url)),
            Ok(Err(error)) => {
                let what = format!("{} cannot be reached from here: {error}", row.url);
                Finding::warning(
                    "reachability",
                    "cluster.md",
                    what,
                    "let workers reach it, or correct its `advertise`",
                )
            }
            Err(_) => {
                let what = format!("{} does not accept within {} s", row.url, PATIENCE.as_secs());
                Finding::warning(
                    "reachability",
                    "cluster.md",
                    what,
                    "let workers reach it, or correct its `advertise`",
                )
            }
        });
    }
    found
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Warning => "warning",
        Level::Bad => "bad",
    }
}

fn link(found: &Finding) -> String {
    format!("{GUIDE}{}", found.page)
}

fn as_json(found: &Finding) -> Value {
    json!({
        "area": found.area, "level": level(found.level), "what": found.what,
        "remedy": Some(&found.remedy).filter(|remedy| !remedy.is_empty()), "link": link(found),
    })
}

fn text(found: &[Finding]) -> String {
    let wide = found.iter().map(|found| found.area.len()).max().unwrap_or_default();
    let columns = look().width.unwrap_or(100);
    let indent = " ".repeat(9 + wide + 2);
    let mut out = String::new();
    for one in found {
        let state = level(one.level);
        let state = painted(&format!("{state:<9}"), style(state), look().color);
        let mut first = true;
        for line in one.what.lines().flat_map(|line| wrapped(line, columns - indent.len())) {
            out += &if first {
                format!("{state}{:wide$}  {line}\n", one.area)
            } else {
                format!("{indent}{line}\n")
            };
            first = false;
        }
        if one.level != Level::Ok {
            for line in wrapped(&format!("→ {}", one.remedy), columns - indent.len()) {
                out += &format!("{indent}{line}\n");
            }
            // A link is not broken: from the margin it fits eighty columns.
            out += &format!("  {}\n", link(one));
        }
    }
    out
}
