/** Tests without a stream: options, configuration, texts, addresses, the clock, refusals of a worker. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { inspect } from "node:util";
import { ownAddress } from "../../src/address.js";
import { Shared } from "../../src/clock.js";
import { configText } from "../../src/config.js";
import { textOf } from "../../src/describe.js";
import { InvalidOption, VERSION, Worker, type WorkerOptions } from "../../src/index.js";
import { jobOf, registrationOf } from "../../src/job.js";
import { stderrLogger } from "../../src/log.js";
import { StopReason } from "../../src/machine/types.js";
import { certificates, loopback, resolve } from "../../src/options.js";
import { shorten } from "../../src/text.js";
import { explained, plain, targetOf } from "../../src/thread/target.js";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

function inFolder(action: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), "rosterd-test-"));
  try {
    action(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

// ---- options

test("the environment is the default, and what the program sets overrides it", () => {
  assert.deepEqual(resolve({}, {}).settings.servers, ["localhost:7700"]);
  const environment = { ROSTERD_SERVER: "localhost:1, https://b:2,", ROSTERD_CREDENTIAL: "secret" };
  const { settings, access } = resolve({}, environment);
  assert.deepEqual([settings.servers, access.credential], [["localhost:1", "https://b:2"], "secret"]);
  const own = resolve({ server: "https://c:3", credential: "other", slots: 3 }, environment);
  assert.deepEqual([own.settings.servers, own.access.credential], [["https://c:3"], "other"]);
  assert.equal(own.settings.slots, 3);
  assert.deepEqual(resolve({ server: ["a:1", "b:2,c:3"] }, {}).settings.servers, ["a:1", "b:2", "c:3"]);
});

for (const near of [
  "localhost:1",
  "127.0.0.1:1",
  "http://127.9.9.9:1",
  "http://[::1]:1",
  "http://[::ffff:127.0.0.1]:1",
]) {
  test(`a credential goes to this machine in plain text: ${near}`, () => {
    assert.ok(loopback(near));
    assert.deepEqual(resolve({ server: near, credential: "s3cret" }, {}).settings.servers, [near]);
  });
}

for (const far of ["a:1", "http://10.0.0.1:1", "http://localhost.example.com", "127.0.0.1.example.com:1"]) {
  test(`a credential goes nowhere else in plain text: ${far}`, () => {
    assert.throws(
      () => resolve({ server: far, credential: "s3cret" }, {}),
      (error: Error) => error.message.includes("in plain text") && !error.message.includes("s3cret"),
    );
    assert.equal(resolve({ server: far }, {}).access.credential, undefined);
    assert.ok(resolve({ server: far, credential: "s3cret", insecureCredential: true }, {}).access.credential);
    const environment = { ROSTERD_INSECURE_CREDENTIAL: "true" };
    assert.ok(resolve({ server: far, credential: "s3cret" }, environment).access.insecureCredential);
    assert.throws(() => resolve({ server: far, credential: "s3cret", insecureCredential: false }, environment));
  });
}

test("files of the environment are read for each connection", () => {
  inFolder((folder) => {
    const environment: Record<string, string> = {};
    for (const name of ["ROSTERD_CA", "ROSTERD_CERT", "ROSTERD_KEY"]) {
      environment[name] = join(folder, name);
      writeFileSync(join(folder, name), name);
    }
    const { access } = resolve({}, environment);
    const read = () => Object.values(certificates(access)).map((pem) => Buffer.from(pem as Uint8Array).toString());
    assert.deepEqual(read().sort(), ["ROSTERD_CA", "ROSTERD_CERT", "ROSTERD_KEY"]);
    writeFileSync(join(folder, "ROSTERD_CERT"), "renewed");
    assert.ok(read().includes("renewed"));
    const given = resolve({ rootCertificates: "given" }, environment).access;
    assert.equal(String(certificates(given).rootCertificates), "given");
    rmSync(join(folder, "ROSTERD_KEY"));
    assert.throws(() => resolve({}, environment), /ROSTERD_KEY=.* cannot be read: ENOENT: name a PEM file/);
  });
});

const WRONG: [WorkerOptions, RegExp][] = [
  [{ slots: 0 }, /^slots must be 1 to 4096, not 0: /],
  [{ slots: 5_000 }, /^slots must be 1 to 4096, not 5000: /],
  [{ slots: 1.5 }, /^slots .* not 1.5/],
  [{ server: "ftp://a" }, /^server 'ftp:\/\/a': only http:\/\/ and https:\/\/ are known/],
  [{ server: "a b" }, /^server 'a b': it is no address/],
  [{ labels: { a: "x".repeat(129) } }, /^labels: at most 128 bytes/],
  [{ drainTimeoutMs: -1 }, /^drainTimeoutMs must not be negative, not -1/],
  [{ connectTimeoutMs: NaN }, /^connectTimeoutMs must not be negative, not NaN/],
  [{ clientKey: "key" }, /^clientCertificate and clientKey go together/],
  [{ credential: "a\nb" }, /^credential: it has characters/],
  [{ health: { port: 70_000 } }, /^health.port must be 0 to 65535, not 70000/],
  [{ slots: 0, drainTimeoutMs: -1 }, /slots .*; drainTimeoutMs /],
];

for (const [wrong, message] of WRONG) {
  test(`options that cannot be: ${inspect(wrong, { breakLength: Infinity }).slice(0, 60)}`, () => {
    assert.throws(() => new Worker(wrong), { name: "InvalidOption", message });
  });
}

test("what a worker refuses", async () => {
  const nothing = () => undefined;
  await assert.rejects(new Worker().run(), /without jobs/);
  const worker = new Worker().job("hello", nothing);
  assert.throws(() => worker.job("hello", nothing), /'hello' is there already: give another name/);
  assert.throws(() => worker.job("", nothing), InvalidOption);
  assert.throws(() => worker.job("other", undefined as never), /'other': the handler is undefined/);
  assert.throws(() => worker.job("other", nothing, { before: 1 as never }), /before is number/);
  assert.throws(() => worker.dataflow("other", { fetch: nothing } as never), /process is undefined/);
  await worker.run({ signals: false, signal: AbortSignal.abort() });
  await assert.rejects(worker.run(), /runs once/);
  assert.throws(() => worker.job("late", nothing), /before the worker runs/);
});

// ---- configuration

test("a typed configuration is a job file", () => {
  const text = configText(
    "hello",
    {
      items: 2,
      cron: "0/5 * * * * ?",
      timeZone: "Europe/Berlin",
      itemParameters: ["Beijing", "Shanghai"],
      failover: true,
      misfire: false,
      strategy: "STICKY",
      timeoutMs: 5_000,
      retries: { maxAttempts: 3, backoffMs: 100 },
      guarantee: { started: true, onTimeout: "skip" },
    },
    true,
  );
  assert.deepEqual(JSON.parse(text), {
    jobName: "hello",
    shardingTotalCount: 2,
    cron: "0/5 * * * * ?",
    timeZone: "Europe/Berlin",
    shardingItemParameters: "0=Beijing,1=Shanghai",
    failover: true,
    misfire: false,
    overwrite: true,
    rosterd: {
      strategy: "STICKY",
      run_timeout_ms: 5_000,
      retries: { max_attempts: 3, backoff_ms: 100 },
      guarantee: { started: true, on_timeout: "skip" },
    },
  });
  const small = configText("hello", { items: 3, strategy: "ODEVITY", itemParameters: { 2: "c" } }, false);
  assert.deepEqual(JSON.parse(small), {
    jobName: "hello",
    shardingTotalCount: 3,
    shardingItemParameters: "2=c",
    jobShardingStrategyType: "ODEVITY",
  });
});

test("a configuration is text, a file or typed, and what cannot be names field and remedy", () => {
  const registration = (config: NonNullable<Parameters<typeof jobOf>[2]["config"]>) =>
    registrationOf(jobOf("hello", () => undefined, { config })).config;
  assert.equal(registration("jobName: hello\n"), "jobName: hello\n");
  inFolder((folder) => {
    writeFileSync(join(folder, "job.yaml"), "jobName: hello\n");
    assert.equal(registration(pathToFileURL(join(folder, "job.yaml"))), "jobName: hello\n");
    assert.throws(
      () => registration(pathToFileURL(join(folder, "none.yaml"))),
      /cannot be read: ENOENT: name a job file/,
    );
  });
  assert.throws(() => registration("x".repeat(65_537)), /config has 65537 bytes, at most 65536/);
  assert.throws(
    () => registration({ items: 1, itemParameters: ["a,b"] }),
    /itemParameters\[0\] is 'a,b'.*another sign/,
  );
  assert.throws(
    () => registration({ items: 1, itemParameters: { 1: "a" } }),
    /itemParameters\[1\]: there is no such item/,
  );
});

// ---- texts, addresses, errors

test("texts are cut at bytes and between characters", () => {
  assert.equal(shorten("short", 8), "short");
  assert.equal(shorten("äöüäöü", 8), "äö…");
  assert.equal(Buffer.byteLength(shorten("x".repeat(100), 10)), 10);
  assert.equal(shorten("😀😀😀", 8), "😀…");
  assert.equal(shorten("a\ud800b", 100), "a\ufffdb", "what is no text is not sent as such");
});

test("results become text", () => {
  const results: [unknown, string][] = [
    [undefined, ""],
    [null, ""],
    ["a", "a"],
    [{ a: 1 }, '{"a":1}'],
    [10n, "10n"],
    [Symbol("s"), "Symbol(s)"],
  ];
  for (const [result, text] of results) assert.equal(textOf(result), text);
});

test("what gRPC connects to", () => {
  const targets = {
    "a:1": "a:1",
    "http://a:1": "a:1",
    "https://a": "a:443",
    "http://a/": "a:80",
    "https://[::1]:7700": "[::1]:7700",
  };
  for (const [address, target] of Object.entries(targets)) assert.equal(targetOf(address), target);
});

test("what TLS says becomes a rejection with what to do", () => {
  assert.match(explained("UNAVAILABLE", "self-signed certificate in certificate chain").detail, /ROSTERD_CA/);
  assert.equal(explained("UNAVAILABLE", "certificate has expired").code, "UNAUTHENTICATED");
  assert.deepEqual(explained("UNAVAILABLE", "connect ECONNREFUSED"), {
    code: "UNAVAILABLE",
    detail: "connect ECONNREFUSED",
  });
  const refused = "No connection established. Last error: Error: connect ECONNREFUSED 127.0.0.1:1. Resolution note: ";
  assert.equal(plain(refused), "connect ECONNREFUSED 127.0.0.1:1");
});

test("the own address faces the coordinator", async () => {
  assert.equal(await ownAddress("127.0.0.1:7700"), "127.0.0.1");
  assert.notEqual(await ownAddress("https://name.invalid:7700"), "");
});

// ---- the clock and the shared memory

test("both threads see one clock, one lease and one reason", () => {
  const one = Shared.create(2);
  const other = Shared.of(one.parts);
  assert.ok(one.leaseLeft() < 0, "there is no lease at first");
  one.leaseStopsAt = one.boot() + 1_000;
  assert.ok(other.leaseLeft() > 0 && other.leaseLeft() <= 1_000);
  assert.ok(Math.abs(one.boot() - other.boot()) < 100);
  one.leaseStopsAt = -Infinity;
  assert.ok(other.leaseLeft() < 0);
  one.setStop(1, StopReason.FENCED);
  assert.deepEqual([other.stop(0), other.stop(1)], [undefined, StopReason.FENCED]);
  one.setStop(1, undefined);
  assert.equal(other.stop(1), undefined);
  one.liveStream = 3;
  one.setLeaving();
  assert.deepEqual([other.liveStream, other.leaving, one.lines(1), other.lines(-1)], [3, true, 1, 0]);
});

test("the thread that renews the lease gets one moment, and not another for the same lease", () => {
  let asked = 0;
  // Each reading of the clock takes a tenth of a second.
  const clocks = { mono: () => 100 * (asked += 1), uptime: () => 100 * asked, wall: () => 100 * asked };
  const shared = Shared.create(1, clocks);
  const looks = (action: () => void) => {
    const before = asked;
    action();
    return asked - before;
  };
  shared.leaseStopsAt = 0;
  assert.ok(looks(() => assert.ok(shared.leaseOver())) > 3, "it waits");
  assert.ok(looks(() => assert.ok(shared.leaseOver())) <= 3, "it does not wait again");
  shared.leaseStopsAt = 1_000_000;
  assert.equal(shared.leaseOver(), false);
});

test("a machine that slept past the lease finds it over, in both threads", () => {
  let [mono, slept, set] = [1_000, 0, 0];
  const clocks = {
    mono: () => mono,
    uptime: () => Math.floor((mono + slept) / 10) * 10,
    wall: () => 1_700_000_000_000 + mono + slept + set,
  };
  const one = Shared.create(1, clocks);
  const other = Shared.of(one.parts, clocks);
  one.leaseStopsAt = one.boot() + 5_000;
  mono += 1_000;
  assert.deepEqual([one.leaseLeft(), other.leaseLeft()], [4_000, 4_000]);
  slept += 60_000;
  mono += 1;
  assert.ok(one.leaseLeft() < 0 && other.leaseLeft() < 0);
  assert.ok(Math.abs(one.boot() - other.boot()) < 1);
  assert.ok(Math.abs(one.boot() - 62_001) <= 10);
  set -= 3_600_000;
  assert.ok(Math.abs(one.boot() - 62_001) <= 10, "a calendar that is set is no sleep");
  // Slept again, and the wall clock was set back by as much: found a moment later.
  slept += 10_000;
  set -= 10_000;
  mono += 250;
  assert.ok(Math.abs(other.boot() - 72_251) <= 10);
});

// ---- the package

test("the version is the package's", () => {
  const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  assert.equal(VERSION, manifest.version);
});

test("the generated code is fresh", () => {
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, "scripts/generate.js"), "--check"]);
  assert.equal(status, 0, String(stderr));
});

test("lines on standard error have time, level, message and fields", () => {
  const written: string[] = [];
  // eslint-disable-next-line @typescript-eslint/unbound-method -- it is only put back
  const { write } = process.stderr;
  process.stderr.write = ((text: string) => written.push(text)) as unknown as typeof write;
  try {
    stderrLogger().info("at work", { job: "hello", text: "two words", token: 5 });
    stderrLogger().debug("not this");
  } finally {
    process.stderr.write = write;
  }
  assert.match(written.join(""), /^\d{4}-.*Z INFO {2}at work job=hello text="two words" token=5\n$/);
});
