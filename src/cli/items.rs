//! `rosterd items`: a job's items, who owns them and what they do.

use clap::Args;
use rosterd_domain::time::Time;

use super::failure::Result;
use super::json;
use super::options::{Limit, moment};
use super::server::{ALL, Client, Server};
use super::show::{Form, brief, or_dash, short_time, table, timestamp};
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Items {
    /// The job
    #[arg(long, value_name = "NAME")]
    job: String,
    /// Also those beyond the job's count, of which the records are kept
    #[arg(long)]
    all: bool,
    /// Who owned them, from when to when, and why they changed hands, latest first
    #[arg(long, conflicts_with = "all")]
    history: bool,
    /// With --history: only of this item
    #[arg(long, value_name = "N", requires = "history")]
    item: Option<u32>,
    /// With --history: owned then or later, RFC 3339 or how long ago (2h)
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "history")]
    since: Option<Time>,
    /// With --history: and before
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "history")]
    until: Option<Time>,
    /// With --history
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Items {
    pub(crate) async fn run(self) -> Result {
        if self.history {
            return self.owners().await;
        }
        let question = v1::ListItemsRequest { job: self.job, ..Default::default() };
        let call = |mut c: Client, q| async move { c.list_items(q).await };
        let (take, turn) = (
            |a: v1::ListItemsResponse| (a.items, a.next_page_token),
            |q: &mut v1::ListItemsRequest, token| q.page_token = token,
        );
        let mut items = self.server.admin().await?.pages(question, call, take, turn, ALL).await?;
        let known = items.len();
        // What still runs is shown.
        items.retain(|item| self.all || !item.surplus || item.state() != v1::ItemState::Idle);
        let hidden = known - items.len();
        if hidden > 0 && !self.form.json {
            eprintln!(
                "rosterd: {hidden} items beyond the job's count are not shown, their records are kept: see them with --all"
            );
        }
        self.form.show(|| items.iter().map(json::item).collect(), || text(&items))
    }

    async fn owners(self) -> Result {
        let question = v1::ListOwnershipRequest {
            job: self.job,
            item: self.item,
            start_time: self.since.map(timestamp),
            end_time: self.until.map(timestamp),
            page_size: self.limit.page(1000),
            page_token: String::new(),
        };
        let call = |mut c: Client, q| async move { c.list_ownership(q).await };
        let take = |a: v1::ListOwnershipResponse| (a.stays, a.next_page_token);
        let turn = |q: &mut v1::ListOwnershipRequest, token| q.page_token = token;
        let admin = self.server.admin().await?;
        let mut stays = admin.pages(question, call, take, turn, self.limit.rows()).await?;
        self.limit.cut(&mut stays, self.form);
        self.form.show(|| stays.iter().map(json::stay).collect(), || owned(&stays))
    }
}

fn owned(stays: &[v1::OwnershipRecord]) -> String {
    if stays.is_empty() {
        return "nothing is known of that time".into();
    }
    let row = |stay: &v1::OwnershipRecord| {
        [
            stay.item.to_string(),
            stay.instance.clone(),
            short_time(stay.start_time.as_ref()),
            short_time(stay.end_time.as_ref()),
            stay.reason.clone(),
            or_dash(&stay.end_reason),
        ]
    };
    table(["ITEM", "OWNER", "FROM", "TO", "WHY", "WHY IT ENDED"], stays.iter().map(row))
}

fn text(items: &[v1::ItemSummary]) -> String {
    if items.is_empty() {
        return "no items".into();
    }
    let row = |item: &v1::ItemSummary| {
        let elsewhere = item.running.as_ref().filter(|run| Some(&run.instance) != item.owner.as_ref());
        let on = elsewhere.map(|run| format!(" on {}", run.instance)).unwrap_or_default();
        // What still runs of a disabled item, or waits to, is both.
        let also = if item.disabled && item.state() != v1::ItemState::Idle { ", disabled" } else { "" };
        let status = json::item_status(item) + &on + also;
        let last = item.last.as_ref().and_then(|last| json::outcome(last.outcome()));
        [
            item.item.to_string(),
            or_dash(&brief(&item.parameter, 16)),
            status,
            item.owner.clone().unwrap_or_else(|| "-".into()),
            item.token.to_string(),
            short_time(last_fire(item)),
            last.unwrap_or_else(|| "-".into()),
        ]
    };
    table(["ITEM", "PARAMETER", "STATE", "OWNER", "TOKEN", "LAST FIRE", "LAST RUN"], items.iter().map(row))
}

/// When it was last run. Up to when scheduled times are accounted for says nothing of that: it is set when a job is made.
fn last_fire(item: &v1::ItemSummary) -> Option<&prost_types::Timestamp> {
    let running = item.running.as_ref().map(|run| &run.fire_time);
    let crashed = item.crashed.as_ref().map(|run| &run.fire_time);
    let last = item.last.as_ref().map(|run| &run.fire_time);
    running.or(crashed).or(last)?.as_ref()
}
