//! Who owned which item: the changes that an assignment makes, and the reasons for them. Every coordinator records
//! every assignment, so they take turns: one compares and writes, the others find that nothing is left to do.

use std::sync::Arc;

use rosterd_domain::id::{Generation, Item};
use rosterd_domain::time::Time;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::link::Trouble;
use crate::owners::{AssignmentStep, KnownAssignment, OpenAssignment, RecordedAssignment, steps};

/// Writes assignments in the order in which they were seen. A transaction holds its turn until it ends.
pub(super) async fn put(
    client: &Client,
    turn: i64,
    assignments: &[(i64, &RecordedAssignment)],
) -> Result<(), Trouble> {
    if assignments.is_empty() {
        return Ok(());
    }
    client.execute("SELECT pg_advisory_xact_lock($1)", &[&turn]).await?;
    for (at, assignment) in assignments {
        let (known, open) = (known(client, assignment).await?, open(client, assignment).await?);
        let steps = steps(known.as_ref(), &open, Time(*at), assignment);
        end(client, *at, &steps).await?;
        begin(client, *at, assignment, &steps).await?;
        for step in &steps {
            take(client, *at, assignment, step).await?;
        }
    }
    Ok(())
}

async fn known(client: &Client, assignment: &RecordedAssignment) -> Result<Option<KnownAssignment>, Trouble> {
    let sql = "SELECT incarnation, generation, at FROM assigned WHERE job = $1";
    let Some(row) = client.query_opt(sql, &[&assignment.job]).await? else { return Ok(None) };
    Ok(Some(KnownAssignment {
        incarnation: row.try_get::<_, &str>(0)?.into(),
        generation: Generation(row.try_get::<_, i64>(1)?.cast_unsigned()),
        at: Time(row.try_get(2)?),
    }))
}

async fn open(client: &Client, assignment: &RecordedAssignment) -> Result<Vec<OpenAssignment>, Trouble> {
    let sql = "SELECT id, item, instance, incarnation, generation FROM assignments WHERE job = $1 AND ended IS NULL \
               ORDER BY item, id";
    let mut open = Vec::new();
    for row in client.query(sql, &[&assignment.job]).await? {
        let instance = row.try_get::<_, &str>(2)?.parse();
        open.push(OpenAssignment {
            id: row.try_get(0)?,
            item: Item(row.try_get::<_, i32>(1)?.cast_unsigned()),
            instance: instance
                .map_err(|_| Trouble::Broken("an owner has no name of an instance".to_owned()))?,
            incarnation: Arc::from(row.try_get::<_, &str>(3)?),
            generation: Generation(row.try_get::<_, i64>(4)?.cast_unsigned()),
        });
    }
    Ok(open)
}

/// Writes all ends at once: a job may have very many items.
async fn end(client: &Client, at: i64, steps: &[AssignmentStep<'_>]) -> Result<(), Trouble> {
    let ends = || {
        steps.iter().filter_map(|step| match step {
            AssignmentStep::End { id, why } => Some((*id, *why)),
            _ => None,
        })
    };
    let (ids, why): (Vec<i64>, Vec<&str>) = ends().unzip();
    let sql = "UPDATE assignments AS a SET ended = greatest(a.since, $1), end_reason = e.why \
               FROM unnest($2::bigint[], $3::text[]) AS e (id, why) WHERE a.id = e.id";
    client.execute(sql, &[&at, &ids, &why]).await?;
    Ok(())
}

async fn begin(
    client: &Client,
    at: i64,
    assignment: &RecordedAssignment,
    steps: &[AssignmentStep<'_>],
) -> Result<(), Trouble> {
    let (mut items, mut owners, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    for step in steps {
        if let AssignmentStep::Begin { item, instance, why } = step {
            items.push(item.0.cast_signed());
            owners.push(*instance);
            reasons.push(*why);
        }
    }
    let generation = assignment.generation.cast_signed();
    let sql = "INSERT INTO assignments (job, incarnation, generation, since, item, instance, reason) \
               SELECT $1::text, $2::text, $3::bigint, $4::bigint, * FROM unnest($5::int[], $6::text[], $7::text[]) \
               ON CONFLICT DO NOTHING";
    let values: [&(dyn ToSql + Sync); 7] =
        [&assignment.job, &assignment.incarnation, &generation, &at, &items, &owners, &reasons];
    client.execute(sql, &values).await?;
    Ok(())
}

async fn take(
    client: &Client,
    at: i64,
    assignment: &RecordedAssignment,
    step: &AssignmentStep<'_>,
) -> Result<(), Trouble> {
    match step {
        AssignmentStep::End { .. } | AssignmentStep::Begin { .. } => {}
        AssignmentStep::Explain { id, why } => {
            client.execute("UPDATE assignments SET reason = $2 WHERE id = $1", &[id, why]).await?;
        }
        AssignmentStep::Know => {
            let generation = assignment.generation.cast_signed();
            let sql = "INSERT INTO assigned VALUES ($1, $2, $3, $4) ON CONFLICT (job) DO UPDATE SET \
                       incarnation = excluded.incarnation, generation = excluded.generation, at = excluded.at";
            client.execute(sql, &[&assignment.job, &assignment.incarnation, &generation, &at]).await?;
        }
        AssignmentStep::Forget => {
            client.execute("DELETE FROM assigned WHERE job = $1", &[&assignment.job]).await?;
        }
    }
    Ok(())
}
