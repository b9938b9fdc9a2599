/** Fences against real servers: what a newer run has written, an older one cannot take back. */

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Redis } from "ioredis";
import pg from "pg";
import {
  assertCurrent,
  createTokens,
  Fenced,
  FencedFile,
  FencedKeys,
  FencedObject,
  fenceTransaction,
} from "../../src/fence/index.js";
import { Bucket } from "../tools/bucket.js";
import { startPostgres, startRedis, startS3, type Started } from "../tools/servers.js";
import { until } from "../tools/workers.js";

const run = (token: bigint, item = 0) => ({ job: "hello", item, token });
/** A double cannot tell them apart, and their lengths differ. */
const OLD = 9_007_199_254_740_993n;
const NEW = 9_007_199_254_740_994n;
const SHORT = 999_999_999_999_999n;

// ---- PostgreSQL

let postgres: Started;
let redisServer: Started;
let s3: Started;
let redis: Redis;
let bucket: Bucket;

before(async () => {
  [postgres, redisServer, s3] = await Promise.all([startPostgres(), startRedis(), startS3()]);
  redis = new Redis({ port: redisServer.port, host: "127.0.0.1" });
  redis.on("error", () => undefined);
  bucket = new Bucket(s3.port);
  await until(connects, "PostgreSQL");
  await until(() => bucket.create(), "S3");
});

after(async () => {
  redis.disconnect();
  bucket.close();
  await Promise.all([postgres.stop(), redisServer.stop(), s3.stop()]);
});

const client = () => new pg.Client({ host: "127.0.0.1", port: postgres.port, user: "tests", database: "postgres" });

async function connects(): Promise<boolean> {
  const trial = client();
  trial.on("error", () => undefined);
  try {
    await trial.connect();
    await trial.end();
    return true;
  } catch {
    return false;
  }
}

async function withClients(action: (one: pg.Client, other: pg.Client) => Promise<void>): Promise<void> {
  const [one, other] = [client(), client()];
  await Promise.all([one.connect(), other.connect()]);
  try {
    await one.query("DROP TABLE IF EXISTS rosterd_tokens, account");
    await one.query("CREATE TABLE account (id int PRIMARY KEY, amount int)");
    await one.query("INSERT INTO account VALUES (1, 0)");
    await createTokens(one);
    await createTokens(one);
    await action(one, other);
  } finally {
    await Promise.all([one.end(), other.end()]);
  }
}

const amount = async (connection: pg.Client) =>
  (await connection.query<{ amount: number }>("SELECT amount FROM account")).rows[0]?.amount;

test("PostgreSQL: a transaction of an older run is refused and leaves nothing", () =>
  withClients(async (one) => {
    const set = (to: number) => (connection: { query: pg.Client["query"] }) =>
      connection.query("UPDATE account SET amount = $1", [to]);
    const write = (token: bigint, to: number) => fenceTransaction(one, run(token), () => set(to)(one));
    await write(SHORT, 1);
    await write(OLD, 2);
    await write(NEW, 3);
    await write(NEW, 4);
    await assert.rejects(write(OLD, 5), (error: Fenced) => {
      assert.ok(error instanceof Fenced);
      assert.match(error.message, /hello\/0: token 9007199254740993 came too late, token 9007199254740994 was seen/);
      return error.seen === NEW;
    });
    await assert.rejects(write(SHORT, 6), Fenced);
    assert.equal(await amount(one), 4);
    await fenceTransaction(one, run(1n, 1), () => set(7)(one));
    assert.equal(await amount(one), 7, "each item has tokens of its own");
  }));

test("PostgreSQL: a newer run waits for the older one's transaction and then outbids it", () =>
  withClients(async (one, other) => {
    const order: string[] = [];
    let release: (() => void) | undefined;
    const first = fenceTransaction(one, run(OLD), async () => {
      await new Promise<void>((resolve) => (release = resolve));
      await one.query("UPDATE account SET amount = 1");
      order.push("older");
    });
    await until(() => release, "the older run is in its transaction");
    const second = fenceTransaction(other, run(NEW), async () => {
      await other.query("UPDATE account SET amount = 2");
      order.push("newer");
    });
    release?.();
    await Promise.all([first, second]);
    assert.deepEqual([order, await amount(one)], [["older", "newer"], 2]);
  }));

test("PostgreSQL: what fails in a transaction is rolled back and thrown", () =>
  withClients(async (one) => {
    const failing = fenceTransaction(one, run(OLD), async () => {
      await one.query("UPDATE account SET amount = 1");
      throw new Error("no");
    });
    await assert.rejects(failing, /^Error: no$/);
    assert.equal(await amount(one), 0);
    await assertCurrent(one, run(SHORT));
  }));

test("PostgreSQL: an advisory look tells an older run to stop early", () =>
  withClients(async (one) => {
    await assertCurrent(one, run(OLD));
    await fenceTransaction(one, run(NEW), () => Promise.resolve());
    await assertCurrent(one, run(NEW));
    await assert.rejects(assertCurrent(one, run(OLD)), Fenced);
    await assert.rejects(createTokens(one, "bad; name"), /only lower-case names/);
  }));

// ---- Redis

test("Redis: a key that a newer run has written is refused to an older one", async () => {
  const keys = new FencedKeys((script, names, given) => redis.eval(script, names.length, ...names, ...given));
  await keys.set("k", "short", run(SHORT));
  await keys.set("k", "old", run(OLD));
  await keys.set("k", "new", run(NEW));
  await keys.set("k", "new again", run(NEW));
  for (const token of [OLD, SHORT]) {
    await assert.rejects(keys.set("k", "late", run(token)), (error: Fenced) => error.seen === NEW);
    await assert.rejects(keys.claim("k", run(token)), Fenced);
  }
  assert.deepEqual(await redis.hgetall("k"), { token: String(NEW), value: "new again" });
  await keys.claim("claimed", run(NEW));
  await assert.rejects(keys.set("claimed", "late", run(OLD)), Fenced);
});

// ---- S3

test("S3: an object that a newer run has written is refused to an older one", async () => {
  const object = new FencedObject(bucket, "report");
  await object.put("short", run(SHORT));
  await object.put("old", run(OLD));
  await object.put(Buffer.from("new"), run(NEW));
  await assert.rejects(object.put("late", run(OLD)), (error: Fenced) => error.seen === NEW);
  assert.equal(await bucket.read("report"), "new");
  assert.equal((await bucket.head("report"))?.token, String(NEW));
});

test("S3: an object that a newer run puts between look and put is kept, also where there was none", async () => {
  await new FencedObject(bucket, "between").put("first", run(SHORT));
  for (const key of ["between", "made between"]) {
    const object = new FencedObject(bucket, key);
    bucket.between = () => object.put("newer", run(NEW));
    await assert.rejects(object.put("late", run(OLD)), (error: Fenced) => error.seen === NEW);
    assert.equal(await bucket.read(key), "newer");
    bucket.between = () => object.put("again", run(NEW));
    await object.put("last", run(NEW));
    assert.equal(await bucket.read(key), "last");
  }
});

test("S3: an object that is removed between look and put is made anew", async () => {
  const object = new FencedObject(bucket, "gone");
  await object.put("first", run(OLD));
  const { puts } = bucket;
  bucket.between = () => bucket.delete("gone");
  await object.put("again", run(OLD));
  assert.equal(await bucket.read("gone"), "again");
  assert.equal(bucket.puts, puts + 2);
});

// ---- files

async function inFolder(action: (file: FencedFile, folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "rosterd-fence-"));
  try {
    await action(new FencedFile(join(folder, "report.csv")), folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("files: what a newer run has written is what is read, and an older one is refused", () =>
  inFolder(async (file, folder) => {
    assert.equal(await file.read(), undefined);
    await file.write("short", run(SHORT));
    await file.write("old", run(OLD));
    await file.write("new", run(NEW));
    await assert.rejects(file.write("late", run(OLD)), (error: Fenced) => error.seen === NEW);
    assert.equal(String(await file.read()), "new");
    assert.deepEqual(readdirSync(folder), ["report.csv.0009007199254740994"]);
    await file.write("new again", run(NEW));
    assert.equal(String(await file.read()), "new again");
  }));

test("files: a run that wakes with its rename still to come makes a name that nobody reads", () =>
  inFolder(async (file, folder) => {
    await file.write("new", run(NEW));
    // As if it had slept: it has passed all its checks.
    writeFileSync(join(folder, "report.csv.0009007199254740993"), "late");
    writeFileSync(join(folder, "report.csv.bak"), "none of ours");
    assert.equal(String(await file.read()), "new");
  }));
