/** The lease, by the contract's words: one test per rule. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { millis, span } from "../../src/machine/time.js";
import { StopReason } from "../../src/machine/types.js";
import * as f from "../tools/frames.js";
import { attached, key, near, running, Script } from "../tools/script.js";

test("the lease counts from when the acknowledged heartbeat was sent, at first the Hello", () => {
  const script = running();
  const begun = script.time;
  script.wait(1_000);
  near(script.machine.leaseStopsAt, begun + 5_000 * 0.995 - 500);
  const [beat] = script.sent("heartbeat");
  const sent = script.time;
  script.wait(500);
  script.recv(f.heartbeatAck(beat!.sequence));
  near(script.machine.leaseStopsAt, sent + 5_000 * 0.995 - 500);
});

test("runs are told to stop before the lease ends, and are reported ABORTED after the resume", () => {
  const script = running();
  script.wait(4_400);
  assert.deepEqual(script.stopped(), []);
  script.wait(100);
  assert.deepEqual(script.stopped(), [[5, StopReason.LEASE]]);
  // The handler ignores it until long after the worker is attached again: in flight all the while.
  script.wait(10_000);
  script.reattach();
  assert.deepEqual(
    script
      .sent("hello")
      .at(-1)
      ?.runsInFlight.map((run) => run.token),
    [5n],
  );
  script.clear();
  script.end(5);
  assert.deepEqual(script.reports(), [[5, "ABORTED"]]);
  script.reattach();
  assert.deepEqual(script.reports(), [
    [5, "ABORTED"],
    [5, "ABORTED"],
  ]);
  script.recv(f.reportAck(5, { result: "FENCED" }));
  script.reattach();
  assert.equal(script.reports().length, 2);
});

test("the stop budget is a quarter of the lease at most", () => {
  const script = new Script().attach("w1", { lease: 1_000, budget: 500 });
  script.recv(f.trigger(5));
  script.wait(700);
  assert.deepEqual(script.stopped(), []);
  script.wait(100);
  assert.deepEqual(script.stopped(), [[5, StopReason.LEASE]]);
});

test("an acknowledgement that waited in the socket while the process stood still counts before the timers", () => {
  const script = running();
  script.wait(1_000);
  script.time += 3_600;
  script.recv(f.heartbeatAck(1));
  assert.deepEqual(script.stopped(), []);
});

test("any other frame that waited counts after the timers: nothing starts under a lease that has just ended", () => {
  const script = attached();
  script.wait(3_000);
  script.time += 5_000;
  const effects = script.recv(f.trigger(5));
  assert.ok(!effects.some((effect) => effect.type === "startRun"));
});

test("acknowledgements of a stream that was left, or of heartbeats that were not sent, renew nothing", () => {
  const script = attached();
  script.wait(1_000);
  script.reattach();
  const stops = script.machine.leaseStopsAt;
  script.time += 500;
  script.recv(f.heartbeatAck(1), 1);
  script.recv(f.heartbeatAck(1));
  assert.equal(script.machine.leaseStopsAt, stops);
});

test("the shortest lease counts for the whole worker, also after a reconnect, and each heartbeat says which", () => {
  const script = attached();
  script.recv(f.registered("hello", { lease: span(900), heartbeatInterval: span(300) }));
  near(script.machine.leaseStopsAt, 100_000 + 900 * 0.995 - 225);
  script.recv(f.registered("hello", { lease: span(2_000), heartbeatInterval: span(700) }));
  near(script.machine.leaseStopsAt, 100_000 + 900 * 0.995 - 225);
  script.clear();
  script.wait(500, { answer: true });
  assert.deepEqual(
    script.sent("heartbeat").map((beat) => millis(beat.lease)),
    [900],
  );
  script.reattach();
  near(script.machine.leaseStopsAt - script.time, 900 * 0.995 - 225, 50);
});

test("a shorter lease is forgotten under another worker_id", () => {
  const script = attached();
  script.recv(f.registered("hello", { lease: span(900), heartbeatInterval: span(300) }));
  script.reattach("w2");
  near(script.machine.leaseStopsAt - script.time, 5_000 * 0.995 - 500, 50);
});

test("heartbeats name the runs in flight until their reports are acknowledged", () => {
  const script = running();
  const named = () =>
    script
      .sent("heartbeat")
      .at(-1)
      ?.runsInFlight.map((run) => run.token);
  script.end(5);
  script.wait(1_000);
  assert.deepEqual(named(), [5n]);
  script.recv(f.reportAck(5));
  script.wait(1_000);
  assert.deepEqual(named(), []);
  assert.deepEqual(
    script.sent("heartbeat").map((beat) => beat.sequence),
    [1n, 2n],
  );
});

test("a run that saw its lease end is aborted though an acknowledgement came after that", () => {
  const script = running(5);
  script.feed({ type: "expired", key: key(5) });
  script.end(5);
  assert.deepEqual(script.stopped(), [[5, StopReason.LEASE]]);
  assert.deepEqual(script.reports(), [[5, "ABORTED"]]);
});

test("a lease that ends between two attempts aborts the run", () => {
  const script = running(5, { maxAttempts: 3, backoffMs: 60_000 });
  script.end(5, "raised");
  script.wait(5_000);
  script.reattach();
  assert.deepEqual(script.reports(), [[5, "ABORTED"]]);
});
