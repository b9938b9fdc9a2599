/**
 * PostgreSQL: a row per item holds the highest token. Locking and comparing it in the transaction that writes makes all
 * its writes conditional.
 *
 * If the written row has a column for the token, no table is needed: `UPDATE account SET …, token = $1 WHERE id = $2
 * AND token <= $1`, and no row means {@link Fenced}.
 */

import { Fenced, type Guarded } from "./fenced.js";

/** A connection of the package pg. For transactions use one client, not a pool. */
export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ rowCount: number | null; rows: Record<string, unknown>[] }>;
}

const NAME = /^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$/;
const TABLE = "rosterd_tokens";

/** Creates the table of tokens if it is absent. */
export async function createTokens(connection: Queryable, table = TABLE): Promise<void> {
  await connection.query(
    `CREATE TABLE IF NOT EXISTS ${named(table)} ` +
      "(job text NOT NULL, item integer NOT NULL, token bigint NOT NULL, PRIMARY KEY (job, item))",
  );
}

/**
 * Carries out `write` in a transaction that is committed only if no higher token was seen for the run's item; throws
 * {@link Fenced} otherwise. The item's row stays locked until the end, so that a newer run waits and then claims it.
 */
export async function fenceTransaction<T>(
  connection: Queryable,
  run: Guarded,
  write: (connection: Queryable) => Promise<T>,
  table = TABLE,
): Promise<T> {
  const into = named(table);
  await connection.query("BEGIN");
  try {
    const { rowCount } = await connection.query(
      `INSERT INTO ${into} AS seen (job, item, token) VALUES ($1, $2, $3::bigint) ` +
        "ON CONFLICT (job, item) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token",
      [run.job, run.item, String(run.token)],
    );
    if (rowCount !== 1) throw new Fenced(`${run.job}/${run.item}`, run.token, await seen(connection, run, into));
    const result = await write(connection);
    await connection.query("COMMIT");
    return result;
  } catch (error) {
    // The first error counts.
    await connection.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/**
 * Checks whether a higher token was seen, and throws {@link Fenced} then. It locks nothing: a newer run may begin right
 * after it. It saves work; it does not replace {@link fenceTransaction}.
 */
export async function assertCurrent(connection: Queryable, run: Guarded, table = TABLE): Promise<void> {
  const found = await seen(connection, run, named(table));
  if (found !== undefined && found > run.token) throw new Fenced(`${run.job}/${run.item}`, run.token, found);
}

async function seen(connection: Queryable, run: Guarded, table: string): Promise<bigint | undefined> {
  const text = `SELECT token::text AS token FROM ${table} WHERE job = $1 AND item = $2`;
  const { rows } = await connection.query(text, [run.job, run.item]);
  const token = rows[0]?.token;
  return typeof token === "string" ? BigInt(token) : undefined;
}

function named(table: string): string {
  if (!NAME.test(table)) throw new TypeError(`table '${table}': only lower-case names, with a schema or without`);
  return table;
}
