//! The tables in the database, and how they come to be: migrations that refinery counts in a table of its own. They are only
//! ever added to, and each leaves what a coordinator of the version before reads and writes as it is: both share the database
//! during an upgrade. New columns have defaults, nothing is renamed.

use std::time::Duration;

use refinery_core::{Migration, Runner};

use super::link::{Address, Link, Trouble, fnv, quoted};

/// How long bringing the tables to this version may take; also how long to wait for another coordinator that does it.
const MIGRATE: Duration = Duration::from_secs(120);

/// The migrations: name (`V`, its number, `__`, what it is) and text. A text that was released is never changed.
const STEPS: &[(&str, &str)] = &[("V1__runs_events_and_counts", include_str!("schema/V1.sql"))];

/// Brings the tables to this version; one coordinator at a time, the others find it done.
pub(super) async fn migrate(link: &mut Link, address: &Address) -> Result<(), Trouble> {
    let steps: Result<Vec<_>, _> = STEPS.iter().map(|(name, sql)| Migration::unapplied(name, sql)).collect();
    let steps = steps.map_err(|error| Trouble::Broken(error.to_string()))?;
    let schema = address.schema().to_owned();
    let answer = link.alone(MIGRATE, async move |client| {
        let lock = lock(&schema);
        client.batch_execute("SET lock_timeout TO 0; SET statement_timeout TO 0").await?;
        client.execute("SELECT pg_advisory_lock($1)", &[&lock]).await?;
        let there = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
        // One that was made beforehand needs no right to make schemas.
        if client.query_opt(there, &[&schema]).await?.is_none() {
            client.batch_execute(&format!("CREATE SCHEMA {}", quoted(&schema))).await?;
        }
        // What a later version has applied is no fault: it changes nothing that this one uses.
        let runner = Runner::new(&steps).set_abort_missing(false).set_grouped(true);
        runner.run_async(client).await.map_err(|error| Trouble::Broken(error.to_string()))?;
        client.execute("SELECT pg_advisory_unlock($1)", &[&lock]).await?;
        Ok(())
    });
    answer.await
}

/// The lock under which the tables of a schema are changed.
pub(super) fn lock(schema: &str) -> i64 {
    fnv(format!("rosterd history {schema}").as_bytes()).cast_signed()
}
