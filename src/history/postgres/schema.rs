//! The tables in the database, and their migrations, which refinery records in a table of its own. Migrations are only
//! ever appended, and each leaves untouched what a coordinator of the previous version reads and writes: both share the
//! database during an upgrade. New columns have defaults, nothing is renamed.

use std::time::Duration;

use refinery_core::{Migration, Runner};

use super::link::{Address, Link, Trouble, fnv, quoted};

/// How long migrating the tables may take, and how long to wait for another coordinator that does so.
const MIGRATE: Duration = Duration::from_secs(120);

/// The migrations: name (`V`, its number, `__`, its subject) and text. A released text is never changed.
const STEPS: &[(&str, &str)] = &[("V1__runs_events_and_counts", include_str!("schema/V1.sql"))];

/// Migrates the tables to this version; one coordinator at a time, the others find it done.
pub(super) async fn migrate(link: &mut Link, address: &Address) -> Result<(), Trouble> {
    let steps: Result<Vec<_>, _> = STEPS.iter().map(|(name, sql)| Migration::unapplied(name, sql)).collect();
    let steps = steps.map_err(|error| Trouble::Broken(error.to_string()))?;
    let schema = address.schema().to_owned();
    let answer = link.alone(MIGRATE, async move |client| {
        let lock = lock(&schema);
        client.batch_execute("SET lock_timeout TO 0; SET statement_timeout TO 0").await?;
        client.execute("SELECT pg_advisory_lock($1)", &[&lock]).await?;
        let there = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
        // If the schema exists already, the user needs no right to create one.
        if client.query_opt(there, &[&schema]).await?.is_none() {
            client.batch_execute(&format!("CREATE SCHEMA {}", quoted(&schema))).await?;
        }
        // Migrations of a later version are not an error: they change nothing that this version uses.
        let runner = Runner::new(&steps).set_abort_missing(false).set_grouped(true);
        runner.run_async(client).await.map_err(|error| Trouble::Broken(error.to_string()))?;
        client.execute("SELECT pg_advisory_unlock($1)", &[&lock]).await?;
        Ok(())
    });
    answer.await
}

/// The advisory lock under which the tables of a schema are changed.
pub(super) fn lock(schema: &str) -> i64 {
    fnv(format!("rosterd history {schema}").as_bytes()).cast_signed()
}
