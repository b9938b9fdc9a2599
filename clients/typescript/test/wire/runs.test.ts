/** The whole worker against a scripted coordinator: real streams, threads and clocks. Every wait is for a state. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Cancelled, Fatal, runIds, type Fire, type Run, type RunEnd } from "../../src/index.js";
import { Coordinator, PATIENCE, type Session } from "../tools/coordinator.js";
import * as f from "../tools/frames.js";
import { Lines, Program, until, Working, workerOf } from "../tools/workers.js";

let coordinator: Coordinator;
let working: Working | undefined;

beforeEach(async () => {
  coordinator = await Coordinator.start();
});

afterEach(async () => {
  working?.worker.stop(0);
  coordinator.stop();
  await working?.over.catch(() => undefined);
  working = undefined;
});

async function greeted(parts: Parameters<Session["greet"]>[1] = {}): Promise<Session> {
  const session = await coordinator.accept();
  await session.greet("w1", parts);
  return session;
}

test("a run from Trigger to report", async () => {
  const seen: Run[] = [];
  const done: string[] = [];
  const lines = new Lines();
  const worker = workerOf(coordinator.address, { credential: "s3cret", labels: { zone: "a" }, logger: lines });
  worker.job(
    "hello",
    async (run, signal) => {
      await Promise.resolve();
      assert.equal(signal, run.signal);
      assert.deepEqual(runIds(), run.ids);
      seen.push(run);
      run.log.info("at work");
      run.count(3, 1);
      run.progress(50, "half");
      run.setOffset("next");
      return { item: run.item };
    },
    { before: () => done.push("before"), after: () => done.push("after") },
  );
  working = new Working(worker);
  const session = await coordinator.accept();
  const hello = await session.greet();
  assert.equal(session.metadata.authorization, "Bearer s3cret");
  assert.deepEqual([hello.slots, hello.address, hello.labels], [4, "10.0.0.1", { zone: "a" }]);
  session.send(f.assignment({ colour: "green" }));
  session.send(f.trigger(7, { item: 2, offset: Buffer.from("here"), timeoutMs: 60_000 }));
  assert.equal((await session.expect("runStarted", ["heartbeat"])).run?.token, 7n);
  const report = await session.expect("runCompleted");
  session.send(f.reportAck(7, { item: 2 }));
  assert.deepEqual([f.outcome(report), JSON.parse(report.output)], ["SUCCEEDED", { item: 2 }]);
  assert.deepEqual([report.processed, report.failed, Buffer.from(report.offset ?? []).toString()], [3n, 1n, "next"]);
  const [run] = seen;
  assert.ok(run);
  assert.deepEqual([run.job, run.item, run.token, run.total, run.attempt], ["hello", 2, 7n, 3, 1]);
  assert.deepEqual([run.itemParameter, run.jobParameter, run.offset.toString()], ["parameter 2", "all", "here"]);
  assert.deepEqual([run.source, run.instanceId, run.props.colour], ["NORMAL_TRIGGER", "10.0.0.1@-@w1", "green"]);
  assert.equal(run.taskId, "hello@-@2@-@READY@-@10.0.0.1@-@w1");
  assert.deepEqual(run.fireTime, new Date(f.FIRE));
  assert.ok(run.deadline !== undefined && run.deadline.getTime() > Date.now());
  assert.deepEqual([run.cancelled, done], [false, ["before", "after"]]);
  const line = lines.all.indexOf("info [hello/2 token 7] at work");
  const ids = { job: "hello", item: 2, token: "7", instance: "10.0.0.1@-@w1", taskId: run.taskId };
  assert.deepEqual(lines.fields[line], ids);
  await working.leave(session);
});

test("what a handler throws is a failure with its stack, and the worker lives on", async () => {
  const errors: unknown[] = [];
  const worker = workerOf(coordinator.address);
  worker.job(
    "hello",
    (run) => {
      if (run.token === 1n) throw new RangeError("no such file", { cause: new Error("disk") });
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- a handler may
      if (run.token === 2n) throw "text";
      if (run.token === 3n) throw new Cancelled("not today");
      return "fine";
    },
    { onError: (_, error) => errors.push(error) },
  );
  working = new Working(worker);
  const session = await greeted();
  const reports = [];
  for (const token of [1, 2, 3, 4]) {
    session.send(f.trigger(token));
    reports.push(await session.expect("runCompleted"));
    session.send(f.reportAck(token));
  }
  assert.deepEqual(reports.map(f.outcome), ["FAILED", "FAILED", "CANCELLED", "SUCCEEDED"]);
  assert.match(reports[0]!.error, /^RangeError: no such file\n\s+at .*runs\.test/);
  assert.match(reports[0]!.error, /caused by Error: disk/);
  assert.equal(reports[1]!.error, "text");
  assert.equal(errors.length, 3);
  await working.leave(session);
});

test("retries are attempts of one run, and a Fatal is not tried again", async () => {
  const attempts: number[] = [];
  working = new Working(
    workerOf(coordinator.address).job("hello", (run) => {
      attempts.push(run.attempt);
      if (run.token === 8n) throw new Fatal("never");
      if (run.attempt < 3) throw new Error("try again");
    }),
  );
  const session = await greeted();
  session.send(f.trigger(7, { maxAttempts: 3, backoffMs: 50 }));
  const report = await session.expect("runCompleted");
  session.send(f.reportAck(7));
  assert.deepEqual([f.outcome(report), report.attempt, attempts], ["SUCCEEDED", 3, [1, 2, 3]]);
  session.send(f.trigger(8, { maxAttempts: 3, backoffMs: 50 }));
  const second = await session.expect("runCompleted");
  session.send(f.reportAck(8));
  assert.deepEqual([f.outcome(second), second.attempt], ["FAILED", 1]);
  assert.match(second.error, /^Fatal: never\n/);
  await working.leave(session);
});

const STOPPED: Record<string, (run: Run, signal: AbortSignal) => unknown> = {
  "by the signal of what it awaits": (run, signal) => sleep(PATIENCE, undefined, { signal, ref: run.item === 0 }),
  "by its look in a loop that never awaits": (run) => {
    const end = Date.now() + PATIENCE;
    while (Date.now() < end) run.throwIfCancelled();
  },
  "by the signal's look in a loop that never awaits": (_, signal) => {
    const end = Date.now() + PATIENCE;
    while (Date.now() < end) signal.throwIfAborted();
  },
};

for (const [how, handler] of Object.entries(STOPPED)) {
  test(`a cancel reaches the handler ${how}`, async () => {
    // The coordinator in this process is blocked while a handler is busy, so it sends its frames before.
    const reasons: string[] = [];
    const worker = workerOf(coordinator.address);
    worker.job("hello", handler, { after: (run) => reasons.push(run.cancelReason) });
    working = new Working(worker);
    const session = await greeted({ interval: 200 });
    session.send(f.trigger(7), f.cancel(7));
    const report = await session.expect("runCompleted");
    assert.equal(f.outcome(report), "CANCELLED");
    session.send(f.reportAck(7));
    assert.ok(reasons.length === 0 || reasons[0] === "an operator asked for it", reasons[0]);
    await working.leave(session);
  });
}

test("a cancel aborts the signal with its reason", async () => {
  const noticed: unknown[] = [];
  working = new Working(
    workerOf(coordinator.address).job("hello", async (run, signal) => {
      await sleep(PATIENCE, undefined, { signal }).catch(() => noticed.push(signal.reason, run.cancelReason));
    }),
  );
  const session = await greeted();
  session.send(f.trigger(7));
  await session.expect("runStarted", ["heartbeat"]);
  session.send(f.cancel(7));
  assert.equal(f.outcome(await session.expect("runCompleted")), "CANCELLED");
  session.send(f.reportAck(7));
  assert.ok(noticed[0] instanceof Cancelled);
  assert.deepEqual([noticed[0].message, noticed[1]], ["an operator asked for it", "an operator asked for it"]);
  await working.leave(session);
});

test("a timeout stops the run", async () => {
  working = new Working(
    workerOf(coordinator.address).job("hello", (_, signal) => sleep(PATIENCE, undefined, { signal })),
  );
  const session = await greeted();
  session.send(f.trigger(7, { timeoutMs: 200 }));
  assert.equal(f.outcome(await session.expect("runCompleted")), "TIMED_OUT");
  session.send(f.reportAck(7));
  await working.leave(session);
});

for (const [streaming, expected] of [
  [true, 5],
  [false, 2],
] as const) {
  test(`a dataflow ${streaming ? "goes on until fetch is empty" : "fetches once"}`, async () => {
    const batches = [[1, 2], [3, 4], [5]];
    const done: number[] = [];
    const worker = workerOf(coordinator.address).dataflow("hello", {
      fetch: () => Promise.resolve(batches.shift() ?? []),
      process: (_, data) => done.push(...data),
    });
    working = new Working(worker);
    const session = await greeted();
    session.send(f.trigger(7, { streaming }));
    const report = await session.expect("runCompleted");
    session.send(f.reportAck(7));
    assert.deepEqual([f.outcome(report), report.processed, done.length], ["SUCCEEDED", BigInt(expected), expected]);
    await working.leave(session);
  });
}

test("a streaming dataflow ends in good order between two batches when the worker leaves", async () => {
  const worker = workerOf(coordinator.address).dataflow("hello", { fetch: () => [1], process: () => sleep(1) });
  working = new Working(worker);
  const session = await greeted();
  session.send(f.trigger(7, { streaming: true }));
  await session.expect("runStarted", ["heartbeat"]);
  worker.stop();
  await session.expect("drainRequest");
  session.send(f.draining());
  assert.equal(f.outcome(await session.expect("runCompleted")), "SUCCEEDED");
  session.send(f.reportAck(7));
  await session.expect("goodbye");
  session.send(f.goodbyeAck());
  await working.over;
});

test("callbacks of a fire", async () => {
  const fires: Fire[] = [];
  const worker = workerOf(coordinator.address).job("hello", () => undefined, {
    onAllStarted: (fire) => fires.push(fire),
    onAllCompleted: () => Promise.reject(new Error("no mail today")),
  });
  working = new Working(worker);
  const session = await greeted();
  session.send(f.callback("c1", "ALL_STARTED"));
  assert.equal((await session.expect("callbackDone")).error, "");
  session.send(f.callback("c2", "ALL_COMPLETED"));
  assert.match((await session.expect("callbackDone")).error, /^Error: no mail today\n/);
  assert.deepEqual(fires, [{ job: "hello", fireTime: new Date(f.FIRE) }]);
  await working.leave(session);
});

test("hooks are told of streams, renewals and runs, and what they throw changes nothing", async () => {
  const told: string[] = [];
  const ends: RunEnd[] = [];
  const worker = workerOf(coordinator.address, {
    hooks: {
      attached: (_, instanceId) => told.push(`attached ${instanceId}`),
      leaseRenewed: (roundTrip) => {
        if (roundTrip >= 0) told.push("renewed");
      },
      runStarted: () => {
        told.push("started");
        throw new Error("a defect");
      },
      runEnded: (_, end) => ends.push(end),
    },
  });
  worker.job("hello", () => undefined);
  working = new Working(worker);
  const session = await greeted({ interval: 50 });
  session.send(f.trigger(7));
  assert.equal(f.outcome(await session.expect("runCompleted")), "SUCCEEDED");
  session.send(f.reportAck(7));
  await until(() => told.includes("renewed"), "renewed");
  assert.ok(told.includes("attached 10.0.0.1@-@w1") && told.includes("started"));
  assert.deepEqual(
    ends.map((end) => end.how),
    ["returned"],
  );
  await working.leave(session);
});

test("a handler that keeps its thread busy for longer than the lease keeps its lease", async () => {
  const program = new Program(coordinator);
  try {
    const session = await greeted({ lease: 1_500, interval: 200, budget: 100 });
    session.send(f.trigger(7, { itemParameter: "busy 4000;output done" }));
    await session.expect("runStarted", ["heartbeat"]);
    const report = await session.expect("runCompleted");
    assert.deepEqual([f.outcome(report), report.output], ["SUCCEEDED", "done"]);
    session.send(f.reportAck(7));
    program.kill("SIGTERM");
    await session.farewell();
    assert.deepEqual(await program.exit, [0, null]);
    assert.doesNotMatch(program.errors, /no stream/);
  } finally {
    program.kill();
  }
});

test("a run that waits behind a busy handler is not begun once its stream is lost", async () => {
  const program = new Program(coordinator);
  try {
    const session = await greeted({ lease: 20_000, interval: 200 });
    session.send(f.trigger(7, { itemParameter: "busy 1500" }));
    await session.expect("runStarted", ["heartbeat"]);
    session.send(f.trigger(8, { item: 1 }));
    await session.expectHeartbeatWith(7, 8);
    session.end();
    const next = await coordinator.accept();
    const hello = await next.greet();
    assert.deepEqual(hello.runsInFlight.map((run) => run.token).sort(), [7n, 8n]);
    const reports = [await next.expect("runCompleted"), await next.expect("runCompleted")];
    const told = reports.map((report) => [report.run?.token, f.outcome(report), report.error]);
    assert.deepEqual(told, [
      [7n, "SUCCEEDED", ""],
      [8n, "NOT_STARTED", "the stream was lost before user code began"],
    ]);
  } finally {
    program.kill();
  }
});
