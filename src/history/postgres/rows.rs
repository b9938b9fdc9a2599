//! Shared by all questions: errors, conditions, pages, and the columns of a run.

use std::sync::{Arc, Mutex, PoisonError};

use rosterd_domain::id::{Item, Token};
use rosterd_domain::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::link::Trouble;
use crate::HistoryError;
use crate::numbers::unsigned;
use crate::port::Paged;
use crate::rows::{RunRow, RunState, source_named};

/// The columns of a run, in the order in which [`run`] reads them.
pub(super) const RUN: &str = "job, item, token, fire, source, instance, worker, trigger_id, state, requeued, since, started, ended, \
                   error, output, processed, failed, attempt, id";

/// Why a question failed: because of the connection, or of the question.
pub(super) enum QueryError {
    Trouble(Trouble),
    Answer(HistoryError),
}

impl From<tokio_postgres::Error> for QueryError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Trouble(error.into())
    }
}

impl From<HistoryError> for QueryError {
    fn from(error: HistoryError) -> Self {
        Self::Answer(error)
    }
}

/// A parameter of a question.
pub(super) type Value = Box<dyn ToSql + Sync + Send>;

/// Conditions, with their parameters.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) conditions: Vec<String>,
    pub(super) values: Vec<Value>,
}

impl Conditions {
    /// A condition in which `?` stands for the parameter.
    pub(super) fn is<T: ToSql + Sync + Send + 'static>(&mut self, condition: &str, value: Option<T>) {
        if let Some(value) = value {
            self.values.push(Box::new(value));
            self.conditions.push(condition.replace('?', &format!("${}", self.values.len())));
        }
    }

    pub(super) fn after(&mut self, time: &str, mark: Option<(i64, i64)>) {
        if let Some((at, id)) = mark {
            self.values.extend([Box::new(at) as Value, Box::new(id) as Value]);
            let n = self.values.len();
            // The first comparison lets the planner skip later days.
            self.conditions.push(format!("{time} <= ${0} AND ({time}, id) < (${0}, ${n})", n - 1));
        }
    }

    pub(super) fn clause(&self) -> String {
        if self.conditions.is_empty() {
            return String::new();
        }
        format!(" WHERE {}", self.conditions.join(" AND "))
    }

    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| value.as_ref() as &(dyn ToSql + Sync)).collect()
    }
}

/// A page that is filled once: it is empty again if the question is repeated.
pub(super) type Page<T> = Arc<Mutex<Option<Paged<T>>>>;

pub(super) fn take<T>(page: &Page<T>) -> Result<Paged<T>, HistoryError> {
    let page = page.lock().unwrap_or_else(PoisonError::into_inner).take();
    page.ok_or_else(|| {
        HistoryError::Unavailable("the connection broke within an answer: ask again".to_owned())
    })
}

pub(super) fn run(row: &Row) -> Result<RunRow, QueryError> {
    Ok(RunRow {
        job: parsed(row.try_get::<_, &str>(0)?.parse().ok())?,
        item: Item(row.try_get::<_, i32>(1)?.cast_unsigned()),
        token: Token(unsigned(row.try_get(2)?)),
        fire: Time(row.try_get(3)?),
        source: parsed(source_named(row.try_get(4)?))?,
        instance: parsed(row.try_get::<_, &str>(5)?.parse().ok())?,
        worker: parsed(row.try_get::<_, &str>(6)?.parse().ok())?,
        trigger: row.try_get::<_, Option<&str>>(7)?.map(|id| parsed(id.parse().ok())).transpose()?,
        state: parsed(RunState::named(row.try_get(8)?))?,
        requeued: row.try_get(9)?,
        since: Time(row.try_get(10)?),
        started: row.try_get::<_, Option<i64>>(11)?.map(Time),
        ended: row.try_get::<_, Option<i64>>(12)?.map(Time),
        error: row.try_get(13)?,
        output: row.try_get(14)?,
        processed: unsigned(row.try_get(15)?),
        failed: unsigned(row.try_get(16)?),
        attempt: row.try_get::<_, i32>(17)?.cast_unsigned(),
    })
}

/// A later version may have written a word that this one does not know.
pub(super) fn parsed<T>(value: Option<T>) -> Result<T, HistoryError> {
    value.ok_or_else(|| {
        HistoryError::Unavailable("a row of it holds a name that this version does not know".to_owned())
    })
}
