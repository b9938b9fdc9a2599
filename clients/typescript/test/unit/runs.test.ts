/** Runs and tokens, by the contract's words: one test per rule. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { StopReason, type EndKind } from "../../src/machine/types.js";
import { OneWayDelay } from "../../src/machine/onewaydelay.js";
import type { CancelReason, SessionResponse } from "../../src/proto/rosterd/v1/worker_pb.js";
import * as f from "../tools/frames.js";
import { attached, RAISED, running, type Script } from "../tools/script.js";

// ---- the checks before a start

const AGAINST: Record<string, [(script: Script) => void, f.TriggerParts]> = {
  "the lease is not valid": [
    (script) => {
      // The acknowledgement is late: the stream works, and the lease counts from when the heartbeat was sent.
      script.wait(3_200);
      script.recv(f.heartbeatAck(1));
      script.wait(2_500);
    },
    {},
  ],
  "an older run of the item is in user code": [(script) => void script.recv(f.trigger(4)), {}],
  "no slot is free": [
    (script) => {
      for (const item of [1, 2, 3, 4]) script.recv(f.trigger(4, { item }));
    },
    {},
  ],
  "the job was shut down here": [(script) => void script.recv(f.shutdown("hello")), {}],
  "the drain deadline has passed": [(script) => void script.feed({ type: "leave", grace: 0 }), {}],
  "the job is none of this worker's": [() => undefined, { job: "unknown" }],
};

for (const [why, [prepare, parts]] of Object.entries(AGAINST)) {
  test(`a Trigger is answered NOT_STARTED where ${why}`, () => {
    const script = attached({ jobs: ["hello", "other"] });
    prepare(script);
    script.recv(f.trigger(5, parts));
    assert.ok(!script.started().includes(5));
    assert.deepEqual(script.reports().at(-1), [5, "NOT_STARTED"]);
  });
}

for (const token of [4, 5]) {
  test(`a token that is not above every token seen is answered NOT_STARTED: ${token} after 5`, () => {
    const script = running(5);
    script.end(5);
    script.recv(f.reportAck(5));
    script.clear();
    script.recv(f.trigger(token));
    assert.deepEqual([script.started(), script.reports()], [[], [[token, "NOT_STARTED"]]]);
  });
}

test("a Trigger whose run is in flight is the only one that is dropped", () => {
  const script = running(5);
  script.recv(f.trigger(5));
  assert.deepEqual([script.started(), script.reports()], [[5], []]);
});

test("whoever ignores to be stopped keeps its item occupied, also under another worker_id", () => {
  const script = running(5);
  script.reattach("w2");
  script.recv(f.trigger(6));
  assert.deepEqual(script.reports(), [[6, "NOT_STARTED"]]);
  script.recv(f.reportAck(6));
  script.end(5);
  script.recv(f.trigger(7));
  assert.deepEqual(script.started(), [5, 7]);
});

test("a higher token fences the older run, and does not start while that is in user code", () => {
  const script = running(5);
  script.recv(f.trigger(6));
  assert.deepEqual(script.stopped(), [[5, StopReason.FENCED]]);
  script.end(5);
  assert.deepEqual(script.reports(), [
    [6, "NOT_STARTED"],
    [5, "ABORTED"],
  ]);
});

test("the last check of the thread that calls user code reports the run as not started", () => {
  const script = attached();
  script.recv(f.trigger(5));
  script.end(5, "not begun");
  assert.deepEqual(script.reports(), [[5, "NOT_STARTED"]]);
  assert.deepEqual(script.sent("runStarted"), []);
});

test("the last check knows the stream of the Trigger, and of a further attempt none", () => {
  const script = running(5, { maxAttempts: 2 });
  script.end(5, RAISED);
  script.wait(10, { answer: true });
  assert.deepEqual(
    script.all("startRun").map((start) => start.stream),
    [1, 0],
  );
});

// ---- RunStarted

test("RunStarted goes out when user code has begun, unless the run has ended by then", () => {
  const script = running(5);
  assert.deepEqual(
    script.sent("runStarted").map((started) => [started.run?.token, started.attempt]),
    [[5n, 1]],
  );
  script.recv(f.trigger(6, { item: 1 }));
  script.lost();
  script.began(6, 1);
  script.recv(f.trigger(7, { item: 2 }));
  script.clear();
  while (script.all("open").length === 0) script.wait(10);
  script.attach();
  assert.deepEqual(
    script.sent("runStarted").map((started) => started.run?.token),
    [6n],
    "said on the next stream where there was none",
  );
});

// ---- triggers that come before their time

test("a Trigger that comes before its time begins when starts_in has passed", () => {
  const script = attached();
  assert.ok(script.sent("hello")[0]?.holdsTriggers);
  script.recv(f.trigger(5, { startsInMs: 200 }));
  script.wait(190);
  assert.deepEqual(script.started(), []);
  script.recv(f.trigger(5, { startsInMs: 1 }));
  script.wait(11);
  assert.deepEqual(script.started(), [5]);
  script.began(5);
  script.end(5);
  assert.deepEqual(script.reports(), [[5, "SUCCEEDED"]]);
});

test("a run that is held is in flight and takes a slot", () => {
  const script = attached();
  for (const item of [0, 1, 2, 3]) script.recv(f.trigger(5, { item, startsInMs: 2_000 }));
  script.recv(f.trigger(9, { item: 4 }));
  assert.deepEqual(script.reports(), [[9, "NOT_STARTED"]]);
  script.wait(1_500, { answer: true });
  assert.equal(script.sent("heartbeat").at(-1)?.runsInFlight.length, 5);
  script.wait(600, { answer: true });
  assert.deepEqual(script.started(), [5, 5, 5, 5]);
});

test("a held run is dropped with its stream without a report, and comes again", () => {
  const script = attached();
  script.recv(f.trigger(5, { startsInMs: 200 }));
  script.clear();
  script.reattach();
  assert.deepEqual(script.sent("hello")[0]?.runsInFlight, []);
  script.wait(500);
  assert.deepEqual([script.started(), script.reports()], [[], []]);
  script.recv(f.trigger(4));
  assert.deepEqual(script.started(), []);
  script.recv(f.trigger(5));
  assert.deepEqual(script.started(), [5]);
});

for (const [reason, outcome] of [
  ["OPERATOR", "CANCELLED"],
  ["FENCED", "NOT_STARTED"],
] as const) {
  test(`what is stopped before its time never begins: ${reason}`, () => {
    const script = attached();
    script.recv(f.trigger(5, { startsInMs: 200 }));
    script.recv(f.cancel(5, reason));
    script.wait(500);
    assert.deepEqual(script.reports(), [[5, outcome]]);
    assert.deepEqual([script.started(), script.stopped()], [[], []]);
  });
}

test("a Trigger that was longer on its way than the quickest of the last 10 s waits so much less, 5 ms at most", () => {
  const delay = new OneWayDelay();
  assert.equal(delay.remainingWait(501, 600, 100), 100, "nothing to compare with");
  assert.equal(delay.remainingWait(502, 600, 100), 99);
  assert.equal(delay.remainingWait(503, 600, 100), 98);
  assert.equal(delay.remainingWait(500, 600, 100), 100, "quicker than all before");
  assert.equal(delay.remainingWait(1_503, 1_600, 100), 97);
  assert.equal(delay.remainingWait(1_599, 1_600, 2), 1);
  assert.equal(delay.remainingWait(1_590, undefined, 2), 2);
  assert.equal(delay.remainingWait(2_700, 2_600, 100), 95, "a calendar that was set back");
  assert.equal(delay.remainingWait(10_700, 10_600, 100), 100, "the old one is no measure any more");
  delay.forget();
  assert.equal(delay.remainingWait(11_700, 11_600, 100), 100, "another stream");
});

// ---- how runs end

const OUTCOMES: [keyof typeof CancelReason | undefined, EndKind, string][] = [
  [undefined, "returned", "SUCCEEDED"],
  [undefined, "raised", "FAILED"],
  [undefined, "fatal", "FAILED"],
  [undefined, "cancelled", "CANCELLED"],
  ["OPERATOR", "returned", "CANCELLED"],
  ["OPERATOR", "cancelled", "CANCELLED"],
  ["OPERATOR", "raised", "CANCELLED"],
  ["OPERATOR", "fatal", "CANCELLED"],
  ["FENCED", "returned", "ABORTED"],
  ["FENCED", "cancelled", "ABORTED"],
  ["TIMED_OUT", "cancelled", "TIMED_OUT"],
  ["UNSPECIFIED", "cancelled", "CANCELLED"],
];

for (const [reason, kind, expected] of OUTCOMES) {
  test(`a run that ${reason === undefined ? "is not stopped" : `is stopped by ${reason}`} and has ${kind} is ${expected}`, () => {
    const script = running(5);
    if (reason !== undefined) {
      script.recv(f.cancel(5, reason));
      assert.equal(script.stopped().length, 1);
      assert.deepEqual(script.reports(), []);
    }
    script.end(5, kind);
    assert.deepEqual(script.reports(), [[5, expected]]);
  });
}

test("a run is reported by the first reason for which it was told to stop", () => {
  const script = running();
  script.recv(f.cancel(5, "TIMED_OUT"));
  script.recv(f.cancel(5, "OPERATOR"));
  script.end(5);
  assert.deepEqual(script.reports(), [[5, "TIMED_OUT"]]);
  assert.equal(script.stopped().length, 1);
});

test("a fence outweighs an earlier reason", () => {
  const script = running();
  script.recv(f.cancel(5, "OPERATOR"));
  script.recv(f.cancel(5, "FENCED"));
  script.end(5);
  assert.deepEqual(script.reports(), [[5, "ABORTED"]]);
});

test("timeout counts from when user code began, over all attempts", () => {
  const script = attached();
  script.recv(f.trigger(5, { timeoutMs: 2_000, maxAttempts: 2, backoffMs: 500 }));
  // The thread of user code was busy with something else.
  script.wait(3_000, { answer: true });
  assert.deepEqual(script.stopped(), []);
  script.began(5);
  script.wait(1_000, { answer: true });
  script.end(5, RAISED);
  script.wait(600, { answer: true });
  assert.deepEqual(script.started(), [5, 5]);
  script.began(5);
  script.wait(300, { answer: true });
  assert.deepEqual(script.stopped(), []);
  script.wait(200, { answer: true });
  script.recv(f.cancel(5, "TIMED_OUT"));
  assert.deepEqual(script.stopped(), [[5, StopReason.TIMED_OUT]]);
  script.end(5);
  assert.deepEqual(script.reports(), [[5, "TIMED_OUT"]]);
});

// ---- attempts

test("an attempt that failed is followed by another of the same run and token, with its offset", () => {
  const script = running(5, { maxAttempts: 3, backoffMs: 1_000 });
  script.end(5, { kind: "raised", error: "bad", processed: 1, offset: Buffer.from("half") });
  assert.deepEqual(script.reports(), []);
  script.wait(900, { answer: true });
  assert.deepEqual(script.started(), [5]);
  script.wait(200, { answer: true });
  const starts = script.all("startRun").map((start) => [start.attempt, Buffer.from(start.offset).toString()]);
  assert.deepEqual(starts, [
    [1, ""],
    [2, "half"],
  ]);
  script.began(5);
  script.end(5, { kind: "returned", processed: 2 });
  const [report] = script.sent("runCompleted");
  assert.ok(report);
  assert.deepEqual([f.outcome(report), report.attempt, report.processed], ["SUCCEEDED", 2, 3n]);
  assert.equal(Buffer.from(report.offset ?? []).toString(), "half");
  assert.deepEqual(
    script.sent("runStarted").map((started) => started.attempt),
    [1, 2],
  );
});

const PAUSES: [string, f.TriggerParts, number[]][] = [
  ["no multiplier counts as 1", {}, [1_000, 1_000]],
  ["each further pause is so many times as long", { retryBackoffMultiplier: 3 }, [1_000, 3_000]],
  ["none is longer than the bound", { retryBackoffMultiplier: 3, backoffMaxMs: 2_000 }, [1_000, 2_000]],
];

for (const [name, parts, pauses] of PAUSES) {
  test(`pauses between attempts: ${name}`, () => {
    const script = running(5, { maxAttempts: 3, backoffMs: 1_000, ...parts });
    for (const [index, pause] of pauses.entries()) {
      script.end(5, RAISED);
      script.wait(pause - 100, { answer: true });
      assert.equal(script.started().length, index + 1);
      script.wait(200, { answer: true });
      assert.equal(script.started().length, index + 2);
      script.began(5);
    }
    script.end(5, RAISED);
    assert.deepEqual(script.reports(), [[5, "FAILED"]]);
  });
}

test("a failure that no repetition mends is not tried again", () => {
  const script = running(5, { maxAttempts: 3 });
  script.end(5, { kind: "fatal", error: "Fatal: no" });
  assert.deepEqual(script.reports(), [[5, "FAILED"]]);
});

test("a run that was told to stop is not tried again", () => {
  const script = running(5, { maxAttempts: 3 });
  script.recv(f.cancel(5));
  script.end(5, RAISED);
  assert.deepEqual(script.reports(), [[5, "CANCELLED"]]);
});

const BETWEEN: [SessionResponse, string][] = [
  [f.cancel(5), "CANCELLED"],
  [f.cancel(5, "FENCED"), "ABORTED"],
  [f.drain(0), "HANDED_BACK"],
];

for (const [frame, expected] of BETWEEN) {
  test(`between two attempts nothing has to end: ${expected}`, () => {
    const script = running(5, { maxAttempts: 3, backoffMs: 60_000 });
    script.end(5, RAISED);
    script.recv(frame);
    script.wait(100, { answer: true });
    assert.deepEqual([script.reports(), script.stopped()], [[[5, expected]], []]);
  });
}

// ---- what reaches user code

test("properties are those that were told last, and outlive the stream", () => {
  const script = attached();
  script.recv(f.assignment({ colour: "green" }));
  script.recv(f.trigger(5));
  script.recv(f.assignment({ colour: "blue" }));
  script.recv(f.trigger(6, { item: 1 }));
  script.reattach();
  script.recv(f.trigger(7, { item: 2 }));
  const seen = script.all("startRun").map((start) => [Number(start.key.token), start.props.colour]);
  assert.deepEqual(seen, [
    [5, "green"],
    [6, "blue"],
    [7, "blue"],
  ]);
});
