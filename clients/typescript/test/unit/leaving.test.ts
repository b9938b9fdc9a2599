/** Leaving, by the contract's words: one test per rule. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { StopReason } from "../../src/machine/types.js";
import * as f from "../tools/frames.js";
import { attached, running, Script } from "../tools/script.js";

const FINISHED = [{ type: "finish", defeat: undefined }];

const CAUSES: Record<string, (script: Script) => void> = {
  "it is asked": (script) => void script.feed({ type: "leave" }),
  "Drain comes": (script) => void script.recv(f.drain()),
  "Shutdown comes": (script) => void script.recv(f.shutdown()),
};

for (const [name, cause] of Object.entries(CAUSES)) {
  test(`where ${name}: DrainRequest, runs, reports, Goodbye, GoodbyeAck`, () => {
    const script = running();
    cause(script);
    assert.equal(script.sent("drainRequest").length, 1);
    // A run that was recorded before the coordinator knew is still sent, and runs.
    script.recv(f.trigger(6, { item: 1 }));
    assert.deepEqual(script.started(), [5, 6]);
    script.recv(f.draining());
    script.wait(3_000, { answer: true });
    script.end(5);
    script.end(6, "returned", 1);
    script.recv(f.reportAck(5));
    assert.deepEqual(script.sent("goodbye"), []);
    script.recv(f.reportAck(6, { item: 1 }));
    assert.equal(script.sent("goodbye").length, 1);
    assert.deepEqual(script.all("finish"), []);
    script.recv(f.goodbyeAck());
    assert.deepEqual(script.all("finish"), FINISHED);
    const types = script.effects.map((effect) => effect.type);
    assert.ok(types.indexOf("close") < types.indexOf("finish"));
    assert.deepEqual(script.feed({ type: "tick" }), []);
  });
}

test("from Goodbye on nothing starts", () => {
  const script = attached();
  script.feed({ type: "leave" });
  script.recv(f.draining());
  assert.equal(script.sent("goodbye").length, 1);
  script.recv(f.trigger(5));
  assert.deepEqual([script.started(), script.reports()], [[], [[5, "NOT_STARTED"]]]);
  script.recv(f.goodbyeAck());
  assert.deepEqual(script.all("finish"), FINISHED);
});

test("runs go on until the drain deadline, then they are stopped and handed back", () => {
  const script = running();
  script.recv(f.drain(10_000));
  script.recv(f.draining());
  script.wait(9_900, { answer: true });
  assert.deepEqual(script.stopped(), []);
  script.wait(200, { answer: true });
  assert.deepEqual(script.stopped(), [[5, StopReason.DRAIN]]);
  script.end(5, "cancelled");
  assert.deepEqual(script.reports(), [[5, "HANDED_BACK"]]);
});

test("of several drain deadlines the earliest counts", () => {
  const script = running();
  script.recv(f.drain(10_000));
  script.recv(f.drain(2_000));
  script.recv(f.drain(20_000));
  script.wait(2_100, { answer: true });
  assert.deepEqual(script.stopped(), [[5, StopReason.DRAIN]]);
});

test("a handler that never ends keeps the worker for 10 s after the drain deadline", () => {
  const script = running();
  script.feed({ type: "leave", grace: 1_000 });
  script.recv(f.draining());
  script.wait(10_900, { answer: true });
  assert.deepEqual(script.all("finish"), []);
  script.wait(200, { answer: true });
  assert.deepEqual(script.all("finish"), [{ type: "finish", defeat: { kind: "leave timed out", inFlight: 1 } }]);
  assert.deepEqual(script.sent("goodbye"), []);
});

test("without GoodbyeAck within 3 s the next coordinator is asked, from the DrainRequest on", () => {
  const script = attached();
  script.feed({ type: "leave" });
  script.recv(f.draining());
  script.clear();
  script.wait(3_400, { answer: true });
  assert.deepEqual(
    script.all("open").map((effect) => effect.address),
    ["b:1"],
  );
  script.attach();
  assert.deepEqual(script.sent("register"), []);
  assert.equal(script.sent("drainRequest").length, 1);
  script.recv(f.draining());
  script.recv(f.goodbyeAck());
  assert.deepEqual(script.all("finish"), FINISHED);
});

test("without Draining for 3 s in which nothing is in flight the next coordinator is asked", () => {
  const script = running();
  script.feed({ type: "leave" });
  script.wait(5_000, { answer: true });
  assert.deepEqual(script.all("close"), [], "a run is in flight");
  script.end(5);
  script.recv(f.reportAck(5));
  script.clear();
  script.wait(2_900, { answer: true });
  assert.deepEqual(script.all("close"), []);
  script.wait(200, { answer: true });
  assert.deepEqual(
    script.all("open").map((effect) => effect.address),
    ["b:1"],
  );
});

test("while the worker leaves pauses are 1 s at most", () => {
  const script = running();
  script.feed({ type: "leave" });
  for (let n = 0; n < 12; n += 1) {
    const { stream, time } = script;
    script.lost();
    while (script.stream === stream && script.time < time + 2_000) script.wait(50);
    assert.ok(script.time <= time + 1_100);
  }
});

test("without any GoodbyeAck within 10 s the worker ends", () => {
  const script = attached();
  script.feed({ type: "leave" });
  script.lost();
  script.wait(9_900);
  assert.deepEqual(script.all("finish"), []);
  script.wait(200);
  assert.deepEqual(script.all("finish"), [{ type: "finish", defeat: { kind: "leave timed out", inFlight: 0 } }]);
});

test("a worker that was never attached says no goodbye", () => {
  const script = new Script();
  script.feed({ type: "leave" });
  assert.deepEqual(script.all("finish"), FINISHED);
});

test("a refused job is not offered again while the worker leaves", () => {
  const script = attached({ jobs: ["hello", "other"] });
  script.recv(f.refused());
  script.recv(f.trigger(5, { job: "other" }));
  script.feed({ type: "leave", grace: 60_000 });
  script.clear();
  script.wait(31_000, { answer: true });
  assert.deepEqual(script.sent("register"), []);
});

test("heartbeats go on to the end", () => {
  const script = running();
  script.feed({ type: "leave" });
  script.recv(f.draining());
  script.clear();
  script.wait(5_500, { answer: true });
  assert.ok(script.sent("heartbeat").length >= 5);
});

test("a second signal's quit stops runs and is over at once", () => {
  const script = running();
  script.feed({ type: "leave" });
  script.feed({ type: "quit" });
  assert.deepEqual(script.stopped(), [[5, StopReason.DRAIN]]);
  assert.deepEqual(script.all("finish"), FINISHED);
});

test("after the first signal one line says which runs are waited for, and what a second one does", () => {
  const script = running();
  script.recv(f.trigger(6, { item: 1 }));
  script.clear();
  script.feed({ type: "leave", signalled: true });
  assert.deepEqual(script.notes("warn"), [
    "signal received: leaving once 2 runs in flight (hello/0 token 5, hello/1 token 6) ended, after 30 s at the " +
      "latest; a second signal exits immediately and records them as crashed",
  ]);
});

test("callbacks that outlive the drain deadline are answered with an error", () => {
  const script = attached();
  script.recv(f.callback("c1", "ALL_STARTED", 60_000));
  script.feed({ type: "leave", grace: 1_000 });
  script.wait(1_100, { answer: true });
  assert.deepEqual(
    script.sent("callbackDone").map((done) => done.error),
    ["the worker left"],
  );
});
