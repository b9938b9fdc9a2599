/**
 * What a handler sees of its lease when it checks before the worker cancels it; and the helper for tests of handlers.
 */

import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Cancelled, Fatal } from "../../src/index.js";
import { stderrLogger } from "../../src/log.js";
import { StopReason, type Key } from "../../src/machine/types.js";
import { TriggerSchema } from "../../src/proto/rosterd/v1/worker_pb.js";
import { Run } from "../../src/run.js";
import { Runner, type Call } from "../../src/runner.js";
import { runDataflow, runHandler } from "../../src/testing.js";

const KEY: Key = { job: "hello", item: 0, token: 5n };

function runWith(leaseLeft: () => number, expired: Key[]): Run {
  return new Run(
    {
      key: KEY,
      trigger: create(TriggerSchema),
      instanceId: "w1",
      attempt: 1,
      offset: new Uint8Array(),
      deadline: undefined,
      props: {},
    },
    {
      leaseOver: () => leaseLeft() <= 0,
      told: () => undefined,
      leaving: () => false,
      expired: (key) => expired.push(key),
      progress: () => undefined,
      now: () => 0,
      log: stderrLogger(),
    },
  );
}

for (const left of [500, 0, -3_000]) {
  test(`a handler that wakes with ${left} ms of its lease finds out by its own look`, () => {
    let lease = 1_000;
    const expired: Key[] = [];
    const run = runWith(() => lease, expired);
    assert.equal(run.cancelled, false);
    run.throwIfCancelled();
    // The process was frozen, and the worker has not cancelled the run yet.
    lease = left;
    const over = left <= 0;
    assert.deepEqual(
      [run.signal.aborted, run.cancelled, run.cancelReason],
      [over, over, over ? "the lease ended" : ""],
    );
    if (over) assert.throws(() => run.signal.throwIfAborted(), Cancelled);
    // The lease that it has checked stays in force, and the worker is notified once.
    lease = 5_000;
    assert.equal(run.cancelled, over);
    assert.deepEqual(expired, over ? [KEY] : []);
  });
}

test("who listens to the signal hears of a lease that a look has found to be over", () => {
  const run = runWith(() => 0, []);
  let heard = 0;
  run.signal.addEventListener("abort", () => (heard += 1));
  assert.equal(run.signal.aborted, true);
  assert.equal(AbortSignal.any([run.signal]).aborted, true);
  assert.equal(heard, 1);
});

// ---- the last check before user code

const LAST: [string, Partial<{ left: number; stop: StopReason; live: number }>, string][] = [
  ["the lease had ended", { left: 0 }, "the lease had ended before user code began"],
  ["it was fenced", { stop: StopReason.FENCED }, `cancelled: ${StopReason.FENCED}`],
  ["the stream was lost", { live: 0 }, "the stream was lost before user code began"],
  ["another stream came", { live: 2 }, "the stream was lost before user code began"],
];

for (const [name, { left = 1_000, stop, live = 1 }, error] of LAST) {
  test(`user code is not called where ${name} since the machine looked`, () => {
    const posted: unknown[] = [];
    let called = false;
    const job = {
      name: "hello",
      handler: () => {
        called = true;
      },
      options: {},
    };
    const line = {
      leaseLeft: () => left,
      leaseOver: () => left <= 0,
      liveStream: () => live,
      leaving: () => false,
      stop: () => stop,
      now: () => ({ boot: 0, wall: 0 }),
      post: (event: unknown) => posted.push(event),
    };
    const call: Call = {
      key: KEY,
      trigger: create(TriggerSchema),
      instanceId: "w1",
      attempt: 1,
      offset: new Uint8Array(),
      deadline: undefined,
      props: {},
      place: 0,
      stream: 1,
    };
    new Runner(new Map([["hello", job]]), line, stderrLogger(), {}).start(call);
    assert.equal(called, false);
    assert.deepEqual(posted, [{ type: "ended", key: KEY, ending: { kind: "not begun", error } }]);
  });
}

// ---- the helper for tests of handlers

test("a handler can be tested without a coordinator", async () => {
  const end = await runHandler(
    (run) => {
      run.count(2, 1);
      run.setOffset(`${run.offset.toString()} more`);
      run.progress(50, "half");
      return { item: run.item, parameter: run.itemParameter };
    },
    { item: 3, itemParameter: "Beijing", offset: "some" },
  );
  assert.deepEqual(
    [end.outcome, end.output, end.processed, end.failed, end.offset?.toString(), end.progress],
    ["SUCCEEDED", '{"item":3,"parameter":"Beijing"}', 2, 1, "some more", [{ percent: 50, message: "half" }]],
  );
});

test("failures say whether another attempt follows", async () => {
  const failed = await runHandler(() => Promise.reject(new Error("no")));
  assert.deepEqual([failed.outcome, failed.retryable, failed.error.split("\n")[0]], ["FAILED", true, "Error: no"]);
  const fatal = await runHandler(() => {
    throw new Fatal("never");
  });
  assert.deepEqual([fatal.outcome, fatal.retryable], ["FAILED", false]);
});

test("a cancel reaches the handler that is tested", async () => {
  const controller = new AbortController();
  const end = runHandler((_, signal) => sleep(60_000, undefined, { signal }), { cancel: controller.signal });
  controller.abort();
  assert.deepEqual([(await end).outcome, (await end).retryable], ["CANCELLED", false]);
});

test("a dataflow can be tested as well", async () => {
  const batches = [new Set([1, 2]), new Set([3])];
  const flow = { fetch: () => batches.shift(), process: () => undefined };
  const end = await runDataflow(flow, { streaming: true });
  assert.deepEqual([end.outcome, end.processed], ["SUCCEEDED", 3]);
});

test("counts and offsets that cannot be are refused to the handler", async () => {
  const tooLong = await runHandler((run) => {
    run.setOffset(Buffer.alloc(65_537));
  });
  assert.match(tooLong.error, /an offset may have 65536 bytes, not 65537/);
  const negative = await runHandler((run) => {
    run.count(-1);
  });
  assert.match(negative.error, /counts only grow: processed must be a whole number from 0, not -1/);
});
