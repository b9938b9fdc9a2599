//! `rosterd info`: which coordinator answers, and how it is.

use clap::Args;
use serde_json::json;

use super::failure::Result;
use super::output::form::Form;
use super::output::span::{date, json_time};
use super::output::text::{facts, word};
use super::server::Server;
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Info {
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Info {
    pub(crate) async fn run(self) -> Result {
        let question = v1::GetServerInfoRequest {};
        let info = self.server.ask(question, |mut c, q| async move { c.get_server_info(q).await }).await?;
        let health = word(info.health().as_str_name(), "SERVER_HEALTH_");
        let history = info.history.clone().unwrap_or_default();
        let json = || {
            json!({
                "version": info.version,
                "namespace": info.namespace,
                "coordinator": info.coordinator_id,
                "store": info.store,
                "health": health,
                "started": json_time(info.started_at.as_ref()),
                "now": json_time(info.now.as_ref()),
                "coordinators": info.coordinators,
                "history": {
                    "database": history.database,
                    "waiting": history.waiting,
                    "waiting_bytes": history.waiting_bytes,
                    "sent": history.sent,
                    "dropped": history.dropped,
                    "trouble": history.trouble,
                },
            })
        };
        let text = || {
            facts([
                ("version", info.version.clone()),
                ("namespace", info.namespace.clone()),
                ("coordinator", info.coordinator_id.clone()),
                ("store", info.store.clone()),
                ("health", health.clone()),
                ("started", date(info.started_at.as_ref())),
                ("now", date(info.now.as_ref())),
                ("coordinators", info.coordinators.join(" ")),
                ("history", info.history.as_ref().map(history_state).unwrap_or_default()),
            ])
        };
        self.form.show(json, text)
    }
}

/// Where the history is, and what is wrong with it.
fn history_state(history: &v1::HistoryStatus) -> String {
    let place = if history.database.is_empty() { "a file of its own" } else { &history.database };
    let mut text = place.to_owned();
    for (count, what) in [(history.waiting, "wait"), (history.dropped, "were dropped")] {
        if count > 0 {
            text.push_str(&format!(", {count} rows {what}"));
        }
    }
    if !history.trouble.is_empty() {
        text.push_str(&format!("; nothing is taken there: {}", history.trouble));
    }
    text
}
