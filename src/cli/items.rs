//! `rosterd items`: a job's items, who owns them and what they do.

use clap::Args;
use rosterd_domain::time::Time;

use super::failure::{Failure, Result};
use super::json;
use super::options::{Limit, Scope, moment};
use super::output::form::ListForm;
use super::output::span::{timestamp, when};
use super::output::table::{Cell, Ids, Table, col};
use super::output::text::{brief, or_dash};
use super::server::{ALL, Client, Server};
use rosterd_wire::proto::v1;

/// List a job's items
#[derive(Debug, Args)]
pub(crate) struct Items {
    #[command(flatten)]
    of: Scope,
    /// Also those beyond the job's count, of which the records are kept
    #[arg(long)]
    all: bool,
    /// Who owned them, from when to when, and why they changed hands, latest first
    #[arg(long, conflicts_with = "all")]
    history: bool,
    /// With --history: owned then or later, RFC 3339, how long ago (2h), or local
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "history")]
    since: Option<Time>,
    /// With --history: and before
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "history")]
    until: Option<Time>,
    /// With --history
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    server: Server,
}

impl Items {
    pub(crate) async fn run(self) -> Result {
        let Self { of, form, .. } = self;
        let (job, item) = of.of_a_job()?;
        if self.history {
            let of = (job, item);
            return owners(of, (self.since, self.until), self.limit, form, &self.server).await;
        }
        let question = v1::ListItemsRequest { job: job.clone(), ..Default::default() };
        let call = |mut c: Client, q| async move { c.list_items(q).await };
        let (take, turn) = (
            |a: v1::ListItemsResponse| (a.items, a.next_page_token),
            |q: &mut v1::ListItemsRequest, token| q.page_token = token,
        );
        let mut items = self.server.admin().await?.pages(question, call, take, turn, ALL).await?;
        if let Some(item) = item {
            items.retain(|row| row.item == item);
            if items.is_empty() {
                return Err(Failure::refused(
                    "ITEM_UNKNOWN",
                    format!("job {job} has no item {item}: see `rosterd items {job}`"),
                ));
            }
        }
        let known = items.len();
        // What still runs is shown.
        items.retain(|row| self.all || item.is_some() || !row.surplus || row.state() != v1::ItemState::Idle);
        let hidden = known - items.len();
        if hidden > 0 && form.is_table() {
            eprintln!(
                "rosterd: {hidden} items beyond the job's count are not shown, their records are kept: see them with --all"
            );
        }
        form.show(|| items.iter().map(json::item).collect(), "no items", || table(&items))
    }
}

async fn owners(
    (job, item): (String, Option<u32>),
    (since, until): (Option<Time>, Option<Time>),
    limit: Limit,
    form: ListForm,
    server: &Server,
) -> Result {
    let question = v1::ListOwnershipRequest {
        job,
        item,
        start_time: since.map(timestamp),
        end_time: until.map(timestamp),
        page_size: limit.page(1000),
        page_token: String::new(),
    };
    let call = |mut c: Client, q| async move { c.list_ownership(q).await };
    let take = |a: v1::ListOwnershipResponse| (a.stays, a.next_page_token);
    let turn = |q: &mut v1::ListOwnershipRequest, token| q.page_token = token;
    let mut stays = server.admin().await?.pages(question, call, take, turn, limit.rows()).await?;
    limit.cut(&mut stays, form.is_table());
    form.show(|| stays.iter().map(json::stay).collect(), "nothing is known of that time", || owned(&stays))
}

fn owned(stays: &[v1::OwnershipRecord]) -> Table {
    let ids = Ids::of(stays.iter().map(|stay| stay.instance.as_str()));
    let row = |stay: &v1::OwnershipRecord| {
        [
            stay.item.into(),
            ids.cell(&stay.instance),
            when(stay.start_time.as_ref()),
            when(stay.end_time.as_ref()),
            stay.reason.as_str().into(),
            or_dash(&stay.end_reason).into(),
        ]
    };
    let columns = [
        col("ITEM").named(),
        col("OWNER").named().cut(10),
        col("FROM"),
        col("TO"),
        col("WHY").cut(8),
        col("WHY IT ENDED").cut(8),
    ];
    Table::of(columns, stays.iter().map(row))
}

fn table(items: &[v1::ItemSummary]) -> Table {
    let owners = items.iter().filter_map(|item| item.owner.as_deref());
    let runners = items.iter().filter_map(|item| Some(item.running.as_ref()?.instance.as_str()));
    let ids = Ids::of(owners.chain(runners));
    let row = |item: &v1::ItemSummary| {
        let elsewhere = item.running.as_ref().filter(|run| Some(&run.instance) != item.owner.as_ref());
        let on = elsewhere.map(|run| format!(" on {}", ids.text(&run.instance))).unwrap_or_default();
        // What still runs of a disabled item, or waits to, is both.
        let also = if item.disabled && item.state() != v1::ItemState::Idle { ", disabled" } else { "" };
        let status = json::item_status(item) + &on + also;
        let last = item.last.as_ref().and_then(|last| json::outcome(last.outcome()));
        [
            item.item.into(),
            or_dash(&brief(&item.parameter, 32)).into(),
            Cell::state(status),
            item.owner.as_deref().map_or_else(|| "-".into(), |owner| ids.cell(owner)),
            item.token.into(),
            when(last_fire(item)),
            last.map_or_else(|| "-".into(), Cell::state),
        ]
    };
    let columns = [
        col("ITEM").named(),
        col("PARAMETER").cut(6),
        col("STATE").cut(8),
        col("OWNER").cut(10),
        col("TOKEN").wide(),
        col("LAST FIRE"),
        col("LAST RUN"),
    ];
    Table::of(columns, items.iter().map(row))
}

/// When it was last run. Up to when scheduled times are accounted for says nothing of that: it is set when a job is made.
fn last_fire(item: &v1::ItemSummary) -> Option<&prost_types::Timestamp> {
    let running = item.running.as_ref().map(|run| &run.fire_time);
    let crashed = item.crashed.as_ref().map(|run| &run.fire_time);
    let last = item.last.as_ref().map(|run| &run.fire_time);
    running.or(crashed).or(last)?.as_ref()
}
