/** Reports, credits, progress and callbacks, by the contract's words: one test per rule. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReportResult } from "../../src/proto/rosterd/v1/worker_pb.js";
import * as f from "../tools/frames.js";
import { attached, key, running, Script } from "../tools/script.js";

test("a report carries what the handler left, and texts are cut to what the protocol allows", () => {
  const script = running();
  script.time += 500;
  script.end(5, {
    kind: "returned",
    output: "ä".repeat(40_000),
    error: "€".repeat(5_000),
    processed: 10,
    failed: 2,
    offset: Buffer.from("next"),
  });
  const [report] = script.sent("runCompleted");
  assert.ok(report);
  assert.deepEqual([report.processed, report.failed, report.attempt], [10n, 2n, 1]);
  assert.equal(Buffer.from(report.offset ?? []).toString(), "next");
  assert.ok(Buffer.byteLength(report.output) <= 64 * 1024 && report.output.endsWith("ä…"));
  assert.ok(Buffer.byteLength(report.error) <= 8 * 1024 && report.error.endsWith("€…"));
  assert.equal(f.took(report), 500);
});

test("an offset that was not set is not sent", () => {
  const script = running();
  script.end(5);
  assert.equal(script.sent("runCompleted")[0]?.offset, undefined);
});

test("at most max_unacknowledged_reports are under way on a stream, the rest wait", () => {
  const script = new Script().attach("w1", { credits: 2 });
  const tokens = () => script.reports().map(([token]) => token);
  for (const token of [1, 2, 3, 4]) script.recv(f.trigger(token, { item: token }));
  for (const token of [4, 3, 2, 1]) script.end(token, "returned", token);
  assert.deepEqual(tokens(), [4, 3]);
  script.recv(f.reportAck(4, { item: 4 }));
  assert.deepEqual(tokens(), [4, 3, 2]);
  script.clear();
  script.reattach("w1", { credits: 8 });
  assert.deepEqual(tokens(), [3, 2, 1], "sent again on every new stream");
});

for (const result of ["ACCEPTED", "FENCED", "UNSPECIFIED"] as (keyof typeof ReportResult)[]) {
  test(`a report is kept until its ReportAck, whatever that says: ${result}`, () => {
    const script = running();
    script.end(5);
    script.recv(f.reportAck(5, { result }));
    script.clear();
    script.reattach();
    assert.deepEqual(script.reports(), []);
    assert.deepEqual(script.sent("hello")[0]?.runsInFlight, []);
  });
}

test("a report that is answered INVALID is replaced by one that says FAILED, once", () => {
  const refusal = f.reportAck(5, {
    result: "INVALID",
    code: "REPORT_INVALID",
    message: "run_completed.offset: too long",
  });
  const script = running();
  script.end(5, { kind: "returned", output: "out", processed: 3, offset: Buffer.from("x") });
  script.clear();
  script.recv(refusal);
  assert.deepEqual(script.reports(), [[5, "FAILED"]]);
  const [report] = script.sent("runCompleted");
  assert.equal(report?.error, "the report SUCCEEDED was refused: REPORT_INVALID: run_completed.offset: too long");
  assert.deepEqual([report.offset, report.output, report.processed], [undefined, "", 0n]);
  script.clear();
  script.reattach();
  // In flight until that one is answered.
  assert.deepEqual(
    script.sent("hello")[0]?.runsInFlight.map((run) => run.token),
    [5n],
  );
  assert.deepEqual(script.reports(), [[5, "FAILED"]]);
  script.recv(refusal);
  script.clear();
  script.reattach();
  assert.deepEqual(script.reports(), []);
});

test("progress goes out four times a second at most, the latest value", () => {
  const script = running();
  for (let percent = 0; percent < 50; percent += 1) {
    script.feed({ type: "progressed", key: key(5), percent, message: "going" });
  }
  script.wait(300);
  assert.deepEqual(
    script.sent("runProgress").map((progress) => progress.percent),
    [0, 49],
  );
});

test("an offset goes out along the way, and again on a new stream", () => {
  const script = running();
  script.feed({ type: "progressed", key: key(5), percent: 0, message: "", offset: Buffer.from("one") });
  const offsets = () => script.sent("runProgress").map((progress) => Buffer.from(progress.offset ?? []).toString());
  assert.deepEqual(offsets(), ["one"]);
  script.clear();
  script.reattach();
  script.wait(300);
  // Another coordinator may not know it.
  assert.deepEqual(offsets(), ["one"]);
});

test("progress of a run that is over is not sent", () => {
  const script = running();
  script.end(5);
  script.feed({ type: "progressed", key: key(5), percent: 100, message: "" });
  script.wait(300);
  assert.deepEqual(script.sent("runProgress"), []);
});

// ---- callbacks

test("a callback is called once and answered from memory when it is asked again", () => {
  const script = attached();
  script.recv(f.callback("c1", "ALL_STARTED"));
  script.recv(f.callback("c1", "ALL_STARTED"));
  assert.equal(script.all("startCallback").length, 1);
  script.feed({ type: "callbackEnded", id: "c1", error: "" });
  script.reattach();
  script.recv(f.callback("c1", "ALL_STARTED"));
  assert.equal(script.all("startCallback").length, 1);
  assert.deepEqual(
    script.sent("callbackDone").map((done) => [done.callbackId, done.error]),
    [
      ["c1", ""],
      ["c1", ""],
    ],
  );
});

test("the last 128 answers are kept", () => {
  const script = attached();
  for (let n = 0; n < 129; n += 1) {
    script.recv(f.callback(`c${n}`, "ALL_STARTED"));
    script.feed({ type: "callbackEnded", id: `c${n}`, error: "" });
  }
  script.recv(f.callback("c1", "ALL_STARTED"));
  assert.equal(script.all("startCallback").length, 129);
  script.recv(f.callback("c0", "ALL_STARTED"));
  assert.equal(script.all("startCallback").length, 130);
});

test("as many callbacks as slots are in user code; one more is answered with an error, and not remembered", () => {
  const script = attached();
  for (let n = 0; n < 5; n += 1) script.recv(f.callback(`c${n}`, "ALL_STARTED"));
  assert.equal(script.all("startCallback").length, 4);
  assert.deepEqual(
    script.sent("callbackDone").map((done) => [done.callbackId, done.error]),
    [["c4", "too many callbacks at a time"]],
  );
  script.feed({ type: "callbackEnded", id: "c0", error: "" });
  script.recv(f.callback("c4", "ALL_STARTED"));
  assert.equal(script.all("startCallback").length, 5, "it is asked again");
});

test("a callback that takes longer than its timeout is answered as timed out, once", () => {
  const script = attached();
  script.recv(f.callback("c1", "ALL_STARTED", 2_000));
  script.wait(2_100, { answer: true });
  script.feed({ type: "callbackEnded", id: "c1", error: "" });
  const answers = () => script.sent("callbackDone").map((done) => [done.error, done.timedOut]);
  assert.deepEqual(answers(), [["timed out", true]]);
  script.recv(f.callback("c1", "ALL_STARTED", 2_000));
  assert.deepEqual(answers(), [
    ["timed out", true],
    ["timed out", true],
  ]);
});
