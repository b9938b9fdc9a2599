//! PostgreSQL: a row per item holds the highest token. Locking and comparing it in the transaction that writes makes
//! all its writes conditional.
//!
//! If the written row has a column for the token, no table is needed: `UPDATE account SET …, token = $1 WHERE id = $2
//! AND token <= $1`, and no row means [`Fenced`].

use super::{Fenced, Guard};

/// Creates the table of tokens if it is absent.
pub const CREATE: &str = "CREATE TABLE IF NOT EXISTS rosterd_tokens \
    (job text NOT NULL, item integer NOT NULL, token bigint NOT NULL, PRIMARY KEY (job, item))";

/// Claims the item, with [`values`]: execute it in the transaction that writes, before the writes. It changes one row,
/// or none if a higher token was seen; [`claimed`] checks it. The row stays locked until the transaction's end, so that
/// a newer run waits and then claims it.
pub const CLAIM: &str = "INSERT INTO rosterd_tokens AS seen (job, item, token) VALUES ($1, $2, $3) \
    ON CONFLICT (job, item) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token";

/// The last token that was seen, by the first two of [`values`]; [`current`] checks it. It locks nothing: a newer run
/// may begin right after it. It saves work; it does not replace [`CLAIM`].
pub const SEEN: &str = "SELECT token FROM rosterd_tokens WHERE job = $1 AND item = $2";

/// The parameters of [`CLAIM`]: text, integer, bigint.
pub fn values<'r>(run: impl Into<Guard<'r>>) -> (&'r str, i32, i64) {
    let Guard { job, item, token } = run.into();
    // Items are at most 100,000, tokens have 63 bits.
    (job, item.cast_signed(), token.cast_signed())
}

/// Checks how many rows [`CLAIM`] has changed. If it fails, roll the transaction back.
pub fn claimed<'r>(run: impl Into<Guard<'r>>, rows: u64) -> Result<(), Fenced> {
    let run = run.into();
    if rows == 0 {
        return Err(Fenced { what: run.to_string(), token: run.token, seen: None });
    }
    Ok(())
}

/// Checks what [`SEEN`] has found.
pub fn current<'r>(run: impl Into<Guard<'r>>, seen: Option<i64>) -> Result<(), Fenced> {
    let run = run.into();
    run.judge(run.to_string(), seen.map(i64::cast_unsigned))
}
