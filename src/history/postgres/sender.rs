//! Sends the records that wait on the disk to the database, in batches, on a thread of its own, and cleans up there in
//! between. If the database is slow or unreachable it retries with growing pauses; the spool bounds what waits
//! meanwhile. A batch whose answer was lost is sent again. A row that the database refuses for its own sake is dropped
//! and counted.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use rosterd_domain::time::Time;
use rosterd_runtime::aside::give_way;
use rosterd_runtime::tasks::panic_text;
use tokio::time::{Instant, timeout};
use tokio_postgres::error::SqlState;

use super::link::{Address, Link, Trouble};
use super::schema::migrate;
use super::upkeep::{Days, clean};
use super::write::write;
use crate::outbox::Outbox;
use crate::queue::Queue;
use crate::spool::{Numbered, is_damage};
use crate::{Clock, Options};

/// How long a batch may take; the server cancels its statements by then as well.
const BATCH: Duration = Duration::from_secs(30);
/// How many rows are sent at once at most.
const BATCH_ROWS: usize = 2_000;
/// About how many bytes of records are sent at once.
const BATCH_BYTES: usize = 8 << 20;
/// The first pause after a failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));
/// How often old rows are looked for.
const REST: Duration = Duration::from_secs(60);
/// How long sending continues after the spool was closed; the rest waits on the disk for the next start.
const LAST: Duration = Duration::from_secs(3);

pub(crate) struct Sender {
    outbox: Arc<Outbox>,
    address: Address,
    options: Options,
    clock: Clock,
    queue: Arc<Queue>,
    days: Days,
    pause: Duration,
    clean_at: Option<Instant>,
}

impl Sender {
    pub(crate) fn new(
        outbox: Arc<Outbox>,
        address: Address,
        options: Options,
        clock: Clock,
        queue: Arc<Queue>,
    ) -> Self {
        let (days, pause) = (Days::default(), PAUSES.0);
        Self { outbox, address, options, clock, queue, days, pause, clean_at: None }
    }

    /// Runs until the spool is closed.
    pub(crate) fn run(mut self) {
        give_way();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.send_all()),
            Err(error) => {
                tracing::error!(%error, "the history cannot be sent to the database: start this process again")
            }
        }
    }

    async fn send_all(&mut self) {
        let outbox = self.outbox.clone();
        let mut last_call = std::pin::pin!(async {
            outbox.ended().await;
            tokio::time::sleep(LAST).await;
        });
        loop {
            let sent = tokio::select! {
                sent = AssertUnwindSafe(self.connected()).catch_unwind() => sent,
                () = &mut last_call => return,
            };
            let trouble = match sent {
                Ok(Ok(())) => return,
                Ok(Err(trouble)) => trouble.to_string(),
                Err(panic) => {
                    let why = panic_text(&*panic).to_owned();
                    tracing::error!(
                        why,
                        "the history's sender panicked and begins again: this is a defect, report it"
                    );
                    why
                }
            };
            if self.outbox.is_closed() {
                return;
            }
            if self.outbox.standing.set_trouble(Some(trouble.clone())).is_none() {
                tracing::warn!(
                    database = self.address.shown(),
                    why = trouble,
                    "the history cannot be sent to the database: rows wait on the disk until it can; jobs are not affected"
                );
            }
            // Stopping ends the pause.
            let waited = timeout(self.pause, async {
                while !self.outbox.is_closed() {
                    self.outbox.changed.notified().await;
                }
            });
            let _ = waited.await;
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
    }

    /// Connects, and sends until an error, or until the spool is closed.
    async fn connected(&mut self) -> Result<(), Trouble> {
        let mut link = Link::open(&self.address, BATCH).await?;
        migrate(&mut link, &self.address).await?;
        // The timeout for migrations must not apply to batches.
        let mut link = {
            drop(link);
            Link::open(&self.address, BATCH).await?
        };
        self.days.forget();
        self.resume(&mut link).await?;
        if let Some(trouble) = self.outbox.standing.set_trouble(None) {
            tracing::info!(
                database = self.address.shown(),
                was = trouble,
                "the history is sent to the database again"
            );
        }
        loop {
            let sent = self.batch(&mut link).await?;
            self.clean(&mut link).await?;
            if sent {
                self.pause = PAUSES.0;
            } else if self.outbox.is_closed() {
                return Ok(());
            } else {
                // `changed` remembers records that are added meanwhile; until then old rows are deleted.
                let rest = self.clean_at.map_or(REST, |at| at.saturating_duration_since(Instant::now()));
                let _ = timeout(rest, self.outbox.changed.notified()).await;
            }
        }
    }

    /// If the database has numbers that were never used here, the spool was restored from a copy: its next records
    /// would be mistaken for ones that were sent. So it continues under another sender name.
    async fn resume(&mut self, link: &mut Link) -> Result<(), Trouble> {
        let Some((sender, last)) = self
            .outbox
            .spool()
            .as_ref()
            .map(|spool| (spool.sender().to_owned(), spool.last_number().unwrap_or(i64::MAX)))
        else {
            return Ok(());
        };
        let client = link.client();
        let question = async {
            let sql = "SELECT sent FROM senders WHERE sender = $1";
            let found = client.query_opt(sql, &[&sender]).await?;
            Ok(found.map(|row| row.try_get::<_, i64>(0)).transpose()?)
        };
        if link.ask(BATCH, question).await?.is_some_and(|sent| sent > last)
            && let Some(spool) = self.outbox.spool().as_mut()
        {
            tracing::warn!(
                "what waits for the database was put back from a copy: it is sent under another name"
            );
            spool.rename(uuid::Uuid::new_v4().to_string()).map_err(on_disk)?;
        }
        Ok(())
    }

    /// Sends the records that wait, at most a batch; returns whether there were any.
    async fn batch(&mut self, link: &mut Link) -> Result<bool, Trouble> {
        let first = self.first().inspect_err(|error| {
            if is_damage(error) {
                self.outbox.give_up();
            }
        });
        let Some(First { sender, rows, last, out_of_place }) = first.map_err(on_disk)? else {
            return Ok(false);
        };
        let count = rows.len() as u64;
        let lost = self.put(link, &sender, &rows).await?;
        if out_of_place > 0 {
            tracing::warn!(
                dropped = out_of_place,
                "rows of the history were too old to be kept, or of a time to come, or unreadable"
            );
            self.queue.lost(out_of_place);
        }
        if let Some(spool) = self.outbox.spool().as_mut() {
            spool.remove(last).map_err(on_disk)?;
            self.outbox.measure(spool);
        }
        self.outbox.standing.count_sent(count.saturating_sub(lost));
        Ok(true)
    }

    /// The first records that wait.
    fn first(&self) -> rusqlite::Result<Option<First>> {
        let spool = self.outbox.spool();
        let Some(spool) = spool.as_ref() else { return Ok(None) };
        let (mut rows, last, unreadable) =
            spool.first(self.options.batch.clamp(1, BATCH_ROWS), BATCH_BYTES)?;
        let Some(last) = last else { return Ok(None) };
        let (now, before) = ((self.clock)(), rows.len());
        rows.retain(|(_, record)| Days::has_place(record, now, &self.options));
        let out_of_place = before - rows.len() + usize::try_from(unreadable).unwrap_or(usize::MAX);
        Ok(Some(First { sender: spool.sender().to_owned(), rows, last, out_of_place }))
    }

    /// Writes the rows; if some are refused for their own sake, in halves, so that the others are written. Returns how
    /// many were refused.
    async fn put(&mut self, link: &mut Link, sender: &str, rows: &[Numbered]) -> Result<u64, Trouble> {
        let mut parts = vec![rows];
        let mut lost = 0;
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            match self.write(link, sender, part).await {
                Ok(()) => {}
                Err(trouble) if trouble.is_the_rows_fault() && part.len() == 1 => {
                    tracing::error!(why = %trouble, "the database refuses a row of the history: it is dropped");
                    self.queue.lost(1);
                    lost += 1;
                }
                Err(trouble) if trouble.is_the_rows_fault() => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(lost)
    }

    async fn write(&mut self, link: &mut Link, sender: &str, rows: &[Numbered]) -> Result<(), Trouble> {
        let written = self.try_write(link, sender, rows).await;
        // No partition for a row: another coordinator dropped it since it was created.
        match written {
            Err(trouble) if trouble.is(&SqlState::CHECK_VIOLATION) => {
                self.days.forget();
                self.try_write(link, sender, rows).await
            }
            other => other,
        }
    }

    async fn try_write(&mut self, link: &mut Link, sender: &str, rows: &[Numbered]) -> Result<(), Trouble> {
        let (client, now) = (link.client(), (self.clock)());
        let question = async {
            self.days.make(&client, self.address.schema(), rows).await?;
            write(&client, self.address.schema(), sender, rows, now.0).await
        };
        link.ask(BATCH, question).await
    }

    /// Deletes a portion of the old rows, now and then.
    async fn clean(&mut self, link: &mut Link) -> Result<(), Trouble> {
        if self.clean_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        let (client, now): (_, Time) = (link.client(), (self.clock)());
        let cleaned = link.ask(BATCH, clean(&client, self.address.schema(), now, &self.options)).await;
        let pause = match cleaned {
            Ok(true) => self.options.flush,
            Ok(false) => REST,
            // Retry later: for example, the rows to be deleted are being read.
            Err(Trouble::Refused { text, .. }) => {
                tracing::warn!(why = text, "old rows of the history cannot be deleted now");
                REST
            }
            Err(trouble) => return Err(trouble),
        };
        self.days.forget();
        self.clean_at = Some(Instant::now() + pause);
        Ok(())
    }
}

/// The next records to send.
struct First {
    /// The sender name.
    sender: String,
    /// Those for which the database has a partition.
    rows: Vec<Numbered>,
    /// The number of the last record.
    last: i64,
    /// How many have no partition.
    out_of_place: usize,
}

fn on_disk(error: rusqlite::Error) -> Trouble {
    Trouble::Broken(format!("what waits on the disk cannot be read: {error}"))
}
