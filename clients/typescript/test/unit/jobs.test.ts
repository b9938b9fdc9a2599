/** Registration, by the contract's words: one test per rule. */

import assert from "node:assert/strict";
import { test } from "node:test";
import * as f from "../tools/frames.js";
import { attached, type Script } from "../tools/script.js";

const registers = (script: Script) => script.sent("register").map((register) => register.job);
const unregisters = (script: Script) => script.sent("unregister").map((given) => given.job);

test("a worker whose last job was refused leaves, and says why", () => {
  const script = attached();
  script.recv(f.refused());
  script.recv(f.draining());
  script.recv(f.goodbyeAck());
  const defeat = { kind: "refused", code: "JOB_UNKNOWN", detail: "no such job", job: "hello" } as const;
  assert.deepEqual(script.all("finish"), [{ type: "finish", defeat }]);
});

test("a job that is refused leaves the others in service, and is asked for at every Welcome", () => {
  const script = attached({ jobs: ["hello", "other"] });
  script.recv(f.refused());
  assert.deepEqual(script.sent("drainRequest"), []);
  script.clear();
  script.reattach();
  assert.deepEqual(registers(script), ["hello", "other"]);
});

test("a refused job is offered again after 30 s, and its refusal is logged once", () => {
  const script = attached({ jobs: ["hello", "other"] });
  script.recv(f.registered("other"));
  script.recv(f.refused());
  assert.deepEqual(script.notes("error"), [
    "job 'hello' was refused: JOB_UNKNOWN: no such job (offered again from time to time)",
  ]);
  script.clear();
  script.wait(29_900, { answer: true });
  assert.deepEqual(registers(script), []);
  script.wait(200, { answer: true });
  assert.deepEqual(registers(script), ["hello"]);
  script.recv(f.refused());
  assert.deepEqual(script.notes("error"), []);
  script.wait(30_100, { answer: true });
  script.recv(f.registered());
  script.clear();
  script.wait(60_000, { answer: true });
  assert.deepEqual(registers(script), []);
});

test("Hello names the jobs that were registered, and on a later stream those that were only asked for", () => {
  const script = attached({ jobs: ["hello", "other"] });
  script.clear();
  script.reattach();
  script.recv(f.registered("other"));
  script.reattach();
  // Lost again before anything was answered.
  script.reattach();
  assert.deepEqual(
    script.sent("hello").map((hello) => [hello.jobs, hello.jobsAsked]),
    [
      [[], ["hello", "other"]],
      [["other"], ["hello"]],
      [["other"], ["hello"]],
    ],
  );
});

test("the first Hello names no jobs", () => {
  const [hello] = attached({ jobs: ["hello", "other"] }).sent("hello");
  assert.deepEqual([hello?.jobs, hello?.jobsAsked], [[], []]);
});

test("a job that was shut down is given up by Unregister, then and after every Welcome; its runs go on", () => {
  const script = attached({ jobs: ["hello", "other"] });
  script.recv(f.trigger(5));
  script.recv(f.shutdown("hello"));
  assert.deepEqual([script.stopped(), unregisters(script)], [[], ["hello"]]);
  script.clear();
  script.reattach();
  assert.deepEqual([registers(script), unregisters(script)], [["other"], ["hello"]]);
  script.recv(f.shutdown("other"));
  assert.equal(script.sent("drainRequest").length, 1);
});

test("a config without effect is warned of once for each new set of differences", () => {
  const cron = { field: "cron", stored: "0 0 2 * * ?", offered: "0 0 3 * * ?" };
  const text = { field: "description", offered: "nightly" };
  const script = attached();
  const differing = (...configDifferences: object[]) => {
    script.clear();
    script.recv(f.registered("hello", { configDifferences }));
    return script.notes("warn");
  };
  assert.deepEqual(differing(cron, text), [
    "the config of job hello is ignored, since the job exists: cron is 0 0 2 * * ? in the store and 0 0 3 * * ? " +
      "here, description is (none) in the store and nightly here; register it with overwrite, or change the job by " +
      "`rosterd jobs apply`",
  ]);
  assert.deepEqual(differing(cron, text), []);
  assert.equal(differing(cron).length, 1);
  assert.deepEqual(differing(), []);
});
