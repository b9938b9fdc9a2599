//! Redis: a script compares the token and writes, with no other command in between.
//!
//! A key is a hash with the fields `value` and `token`. Evaluate a script with one key and the run's token, and [`SET`] with the
//! value as well; its answer is an array of a number and a text, for [`judge`].

use super::{Fenced, Guard};

/// Writes a value: `EVAL script 1 key token value`.
// Lua counts in floating point: tokens of 63 bits are compared as text, by length and then character by character.
pub const SET: &str = "\
local seen = redis.call('HGET', KEYS[1], 'token')
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then return {0, seen} end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return {1, ARGV[1]}
";

/// Claims a key without a value, so that lower tokens are refused from then on: `EVAL script 1 key token`.
pub const CLAIM: &str = "\
local seen = redis.call('HGET', KEYS[1], 'token')
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then return {0, seen} end
redis.call('HSET', KEYS[1], 'token', ARGV[1])
return {1, ARGV[1]}
";

/// Checks the answer of a script.
pub fn judge<'r>(run: impl Into<Guard<'r>>, key: &str, (written, seen): (i64, &str)) -> Result<(), Fenced> {
    if written == 1 {
        return Ok(());
    }
    Err(Fenced { what: format!("key {key}"), token: run.into().token, seen: seen.parse().ok() })
}
