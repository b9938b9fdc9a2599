/** Workers against the real coordinator. Every wait is for a state. */

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { Cancelled, runIds } from "../../src/index.js";
import { PATIENCE } from "../tools/coordinator.js";
import { RealCoordinator, type RunRecord } from "../tools/real.js";
import { Lines, Program, until, Working, workerOf } from "../tools/workers.js";

const coordinator = new RealCoordinator();
const programs: Program[] = [];
let working: Working | undefined;
let lines = new Lines();

before(() => coordinator.start());
after(() => coordinator.stop());
afterEach(async () => {
  for (const program of programs.splice(0)) program.kill();
  working?.worker.stop(0);
  await working?.over.catch(() => undefined);
  working = undefined;
  lines = new Lines();
});

function program(job: string): Program {
  const started = new Program(coordinator.address, [job]);
  programs.push(started);
  return started;
}

function attached(...started: Program[]): Promise<void> {
  return until(() => started.every(({ errors }) => errors.includes(" items, ")), "the workers are registered");
}

/** The only worker of this process. */
function registered(job: string): Promise<void> {
  return until(() => lines.all.some((line) => line.includes(`job ${job}: `)), "the worker is registered");
}

async function ended(job: string, item = 0): Promise<RunRecord> {
  let found: RunRecord | undefined;
  await until(async () => {
    found = (await coordinator.runs(job)).find((run) => run.item === item && run.outcome !== null);
    return found;
  }, `a run of ${job}/${item} has ended`);
  return found!;
}

const running = (job: string, item = 0) => until(() => coordinator.runsAt(job, item), `${job}/${item} runs`);

function jobFile(jobName: string, parameters: string[], more: object = {}): Record<string, unknown> {
  return {
    jobName,
    shardingTotalCount: parameters.length,
    shardingItemParameters: parameters.map((parameter, item) => `${item}=${parameter}`).join(","),
    ...more,
  };
}

test("a job that comes with the worker is made, and its runs are recorded", async () => {
  const seen: string[] = [];
  const worker = workerOf(coordinator.address, { logger: lines }).job(
    "brought",
    (run) => {
      seen.push(`${run.item}/${run.total} ${run.itemParameter} ${run.offset.toString()} ${run.props.colour ?? ""}`);
      assert.equal(runIds()?.token, String(run.token));
      run.count(5, 1);
      run.setOffset(`o${run.item}`);
      return { item: run.item };
    },
    { config: { items: 2, itemParameters: ["a", "b"], props: { colour: "green" }, timeZone: "Europe/Berlin" } },
  );
  working = new Working(worker);
  await registered("brought");
  await coordinator.ask("jobs", "trigger", "brought");
  const runs = [await ended("brought", 0), await ended("brought", 1)];
  assert.deepEqual(
    runs.map((run) => [run.outcome, run.output, run.processed]),
    [
      ["succeeded", '{"item":0}', 5],
      ["succeeded", '{"item":1}', 5],
    ],
  );
  await coordinator.ask("jobs", "trigger", "brought");
  await until(() => seen.length === 4, "the second fire");
  assert.deepEqual(seen.sort(), ["0/2 a  green", "0/2 a o0 green", "1/2 b  green", "1/2 b o1 green"]);
  worker.stop();
  await working.over;
});

test("a config that differs from the store is warned of", async () => {
  await coordinator.apply({ jobName: "differs", shardingTotalCount: 1, description: "the store's" });
  working = new Working(
    workerOf(coordinator.address, { logger: lines }).job("differs", () => undefined, {
      config: { items: 1, description: "the worker's" },
    }),
  );
  await until(() => lines.all.some((line) => line.startsWith("warn the config of job differs is ignored")), "warned");
});

test("an error, its retries and a Fatal are recorded", async () => {
  const retries = { rosterd: { retries: { max_attempts: 2, backoff_ms: 10 } } };
  await coordinator.apply(jobFile("fails", ["fail no luck", "fatal never"], retries));
  await attached(program("fails"));
  await coordinator.ask("jobs", "trigger", "fails");
  const [failed, fatal] = [await ended("fails", 0), await ended("fails", 1)];
  assert.deepEqual([failed.outcome, failed.attempt, fatal.outcome, fatal.attempt], ["failed", 2, "failed", 1]);
  assert.match(failed.error, /^Error: no luck\n\s+at /);
  assert.match(fatal.error, /^Fatal: never\n\s+at /);
});

test("an operator's cancel reaches handlers that wait and handlers that are busy", async () => {
  await coordinator.apply(jobFile("cancelled", ["sleep 60000"]));
  await coordinator.apply(jobFile("cancelled-busy", ["busy 60000"]));
  for (const job of ["cancelled", "cancelled-busy"]) {
    await attached(program(job));
    await coordinator.ask("jobs", "trigger", job);
    await running(job);
    await coordinator.ask("jobs", "cancel", job, "--item", "0");
    assert.equal((await ended(job)).outcome, "cancelled");
  }
});

test("a run that is still going after its timeout is recorded as timed out", async () => {
  await coordinator.apply(jobFile("slow", ["sleep 60000"], { rosterd: { run_timeout_ms: 300 } }));
  await attached(program("slow"));
  await coordinator.ask("jobs", "trigger", "slow");
  assert.equal((await ended("slow")).outcome, "timed_out");
});

test("a dataflow streams until there is nothing", async () => {
  const batches = [[1, 2], [3]];
  working = new Working(
    workerOf(coordinator.address, { logger: lines }).dataflow("flow", {
      fetch: () => batches.shift() ?? [],
      process: () => undefined,
      config: { items: 1, kind: "dataflow", streaming: true },
    }),
  );
  await registered("flow");
  await coordinator.ask("jobs", "trigger", "flow");
  const run = await ended("flow");
  assert.deepEqual([run.outcome, run.processed], ["succeeded", 3]);
});

test("callbacks surround a fire that has them guaranteed", async () => {
  const told: string[] = [];
  working = new Working(
    workerOf(coordinator.address, { logger: lines }).job("guarded", (run) => void told.push(`item ${run.item}`), {
      config: { items: 2, cron: "* * * * * ?", guarantee: { started: true, completed: true, timeoutMs: 10_000 } },
      onAllStarted: (fire) => void told.push(`started ${fire.job}`),
      onAllCompleted: (fire) => void told.push(`completed ${fire.job}`),
    }),
  );
  await until(() => told.includes("completed guarded"), "a fire has completed");
  const fire = told.slice(0, told.indexOf("completed guarded"));
  assert.equal(fire[0], "started guarded");
  assert.deepEqual(fire.slice(1, 3).sort(), ["item 0", "item 1"]);
});

test("a run outlives a coordinator that is killed and started again", async () => {
  await coordinator.apply(jobFile("outlives", ["sleep 4000;output done"]));
  const worker = program("outlives");
  await attached(worker);
  await coordinator.ask("jobs", "trigger", "outlives");
  await running("outlives");
  await coordinator.kill();
  await until(() => worker.errors.includes("disconnected from"), "the worker has noticed");
  await coordinator.start();
  const run = await ended("outlives");
  assert.deepEqual([run.outcome, run.output], ["succeeded", "done"]);
  assert.equal((await coordinator.runs("outlives")).length, 1, worker.errors);
  assert.doesNotMatch(worker.errors, /marked dead/);
});

test("SIGTERM lets a run end, and the worker is gone without a trace of failure", async () => {
  await coordinator.apply(jobFile("drained", ["sleep 1500;output done"], { failover: true }));
  const worker = program("drained");
  await attached(worker);
  await coordinator.ask("jobs", "trigger", "drained");
  await running("drained");
  worker.kill("SIGTERM");
  assert.deepEqual(await worker.exit, [0, null]);
  const run = await ended("drained");
  assert.deepEqual([run.outcome, run.output], ["succeeded", "done"]);
});

test("an item whose worker was killed runs again at another worker, with a higher token", async () => {
  await coordinator.apply(
    jobFile("failover", ["sleep 60000"], { failover: true, rosterd: { disconnect_grace_ms: 1_000 } }),
  );
  const both = [program("failover"), program("failover")];
  await attached(...both);
  await coordinator.ask("jobs", "trigger", "failover");
  await running("failover");
  const first = await coordinator.runsAt("failover", 0);
  const victim = both.find((one) => one.errors.includes(String(first)));
  assert.ok(victim, "one of them runs it");
  victim.kill();
  await until(async () => ![undefined, first].includes(await coordinator.runsAt("failover", 0)), "it runs elsewhere");
  await until(async () => (await coordinator.runs("failover")).length === 2, "both runs are recorded");
  const [again, before] = await coordinator.runs("failover");
  assert.deepEqual([again?.source, before?.outcome], ["FAILOVER", "crashed"]);
  assert.ok(again!.token > before!.token);
});

test("a busy handler keeps its lease at the real coordinator", async () => {
  await coordinator.apply(
    jobFile("busy", ["busy 8000;output done"], { failover: true, rosterd: { disconnect_grace_ms: 3_000 } }),
  );
  const worker = program("busy");
  await attached(worker);
  await coordinator.ask("jobs", "trigger", "busy");
  const run = await ended("busy");
  assert.deepEqual([run.outcome, run.output], ["succeeded", "done"], worker.errors);
  assert.equal((await coordinator.runs("busy")).length, 1);
});

test("a handler may end its run as cancelled by its own choice", async () => {
  working = new Working(
    workerOf(coordinator.address, { logger: lines }).job(
      "chooses",
      () => {
        throw new Cancelled("not today");
      },
      { config: { items: 1 } },
    ),
  );
  await registered("chooses");
  await coordinator.ask("jobs", "trigger", "chooses");
  const run = await ended("chooses");
  assert.deepEqual([run.outcome, run.error], ["cancelled", "not today"]);
});

test("a worker of another namespace is rejected with the reason", async () => {
  const worker = workerOf(coordinator.address, { namespace: "elsewhere" }).job("any", () => undefined);
  const patience = setTimeout(() => {
    worker.stop(0);
  }, PATIENCE);
  await assert.rejects(worker.run({ signals: false }), { name: "Rejected" });
  clearTimeout(patience);
});
