/** The stream, by the contract's words: one test per rule. */

import assert from "node:assert/strict";
import { fromBinary } from "@bufbuild/protobuf";
import { test } from "node:test";
import type { WorkerOptions } from "../../src/index.js";
import { StopReason } from "../../src/machine/types.js";
import { resolve } from "../../src/options.js";
import { SessionResponseSchema } from "../../src/proto/rosterd/v1/worker_pb.js";
import { instant } from "../../src/machine/time.js";
import * as f from "../tools/frames.js";
import { attached, key, running, Script } from "../tools/script.js";

test("Hello is the first frame and says who the worker is, and every job is registered", () => {
  const script = new Script({ jobs: ["hello", "other"], labels: { zone: "a" }, namespace: "prod" });
  assert.deepEqual(script.effects, [{ type: "open", stream: 1, address: "a:1" }]);
  script.opened();
  const [hello] = script.sent("hello");
  assert.ok(hello);
  assert.deepEqual([hello.workerId, hello.resumeKey, hello.streamNumber, hello.slots], ["", "", 1n, 4]);
  assert.deepEqual([hello.address, hello.labels, hello.namespace], ["10.0.0.1", { zone: "a" }, "prod"]);
  assert.match(hello.client, /^rosterd-typescript\/\d/);
  assert.equal(instant(hello.sentAt), 1_700_000_100_000);
  assert.equal(script.sent("register").length, 0);
  script.recv(f.welcome());
  assert.deepEqual(
    script.sent("register").map((register) => register.job),
    ["hello", "other"],
  );
});

test("a later Hello gives back identity and key, has a larger number and names every run in flight", () => {
  const script = running();
  script.clear();
  script.reattach();
  const [hello] = script.sent("hello");
  assert.deepEqual([hello?.workerId, hello?.resumeKey, hello?.streamNumber], ["w1", "key of w1", 2n]);
  assert.deepEqual(
    hello?.runsInFlight.map((run) => run.token),
    [5n],
  );
  assert.deepEqual(
    script.sent("register").map((register) => register.job),
    ["hello"],
  );
  assert.deepEqual(script.stopped(), []);
});

test("the old stream is closed before the next is opened", () => {
  const script = attached();
  script.clear();
  script.reattach();
  const kinds = script.effects.map((effect) => effect.type).filter((type) => type === "close" || type === "open");
  assert.deepEqual(kinds, ["close", "open"]);
});

test("what comes out of a stream that was left is dropped unread", () => {
  const script = attached();
  script.reattach();
  script.recv(f.trigger(9), 1);
  assert.deepEqual([script.started(), script.reports()], [[], []]);
});

test("frames and fields that are not known are ignored", () => {
  const script = attached();
  script.recv(fromBinary(SessionResponseSchema, Uint8Array.of(0xfa, 0x07, 0x01, 0x78)));
  script.recv(fromBinary(SessionResponseSchema, new Uint8Array()));
  script.recv(f.welcome("w9"));
  script.recv(f.trigger(3));
  assert.deepEqual(script.started(), [3]);
});

test("a cancel reason that is not known cancels", () => {
  const script = running();
  const frame = f.cancel(5);
  Object.assign(frame.frame.value ?? {}, { reason: 99 });
  script.recv(frame);
  script.end(5);
  assert.deepEqual(script.reports(), [[5, "CANCELLED"]]);
});

test("another worker_id stops every run in flight, and none of them is reported", () => {
  const script = running(5);
  script.recv(f.trigger(6, { item: 1 }));
  script.end(6, "returned", 1);
  assert.deepEqual(script.reports(), [[6, "SUCCEEDED"]]);
  script.clear();
  script.reattach("w2");
  assert.deepEqual(script.stopped(), [[5, StopReason.DEAD]]);
  script.end(5);
  assert.deepEqual(script.reports(), []);
  script.wait(1_100);
  assert.deepEqual(script.sent("heartbeat").at(-1)?.runsInFlight, []);
});

test("the first attempt is immediate, then pauses double to 10 s over all coordinators", () => {
  const script = attached();
  script.wait(1_100, { answer: true });
  script.clear();
  script.lost();
  assert.deepEqual(
    script.all("open").map((effect) => effect.address),
    ["b:1"],
  );
  const pauses: number[] = [];
  for (let n = 0; n < 10; n += 1) {
    script.lost("UNAVAILABLE", "refused");
    const before = script.time;
    script.time = script.machine.deadline();
    assert.ok(script.feed({ type: "tick" }).some((effect) => effect.type === "open"));
    pauses.push(script.time - before);
  }
  assert.ok(pauses[0]! >= 100 && pauses[0]! <= 200, "cut by a half at most");
  assert.ok(pauses.every((pause) => pause <= 10_000));
  assert.ok(pauses.at(-1)! >= 5_000);
  const addresses = script.all("open").map((effect) => effect.address);
  assert.deepEqual(addresses, [...Array.from({ length: 5 }, () => ["b:1", "a:1"]).flat(), "b:1"]);
});

test("only a heartbeat that is acknowledged begins the pauses anew", () => {
  const script = attached();
  script.reattach();
  script.clear();
  script.lost();
  assert.deepEqual(script.all("open"), []);
});

test("coordinators of the Welcome are tried, and a secret that went over TLS never goes in the clear", () => {
  const coordinators = ["http://plain:1", "https://b:1", "c:1"];
  const script = new Script({ servers: ["https://a:1"] }).attach("w1", { coordinators });
  const seen: (string | undefined)[] = [];
  for (let n = 0; n < 3; n += 1) {
    script.reattach("w1", { coordinators });
    seen.push(script.all("open").at(-1)?.address);
  }
  assert.deepEqual(seen, ["https://b:1", "https://c:1", "https://a:1"]);
});

const HOSTS = [
  "https://a.example:2",
  "https://evil.example:1",
  "https://a.example.evil:1",
  "http://127.0.0.1:3",
  "http://b c",
];
const LEARNED: [WorkerOptions & { server: string }, string[]][] = [
  // A planted address with a certificate of any authority got the credential.
  [{ server: "https://a.example:1", credential: "s3cret" }, ["https://a.example:2"]],
  // Others also do not get a certificate, and the worker takes no work from them.
  [{ server: "https://a.example:1" }, ["https://a.example:2"]],
  [{ server: "https://a.example:1", credential: "s3cret", rootCertificates: "ca" }, HOSTS.slice(0, 3)],
  [{ server: "localhost:1", credential: "s3cret" }, ["http://127.0.0.1:3"]],
  [{ server: "10.0.0.1:1", credential: "s3cret", insecureCredential: true }, []],
  [{ server: "10.0.0.1:1" }, HOSTS],
];

for (const [options, learned] of LEARNED) {
  test(`a credential goes to no coordinator that only a Welcome named: ${JSON.stringify(options)}`, () => {
    const script = new Script(resolve(options, {}).settings).attach("w1", { coordinators: HOSTS });
    const seen: (string | undefined)[] = [];
    for (let n = 0; n <= learned.length; n += 1) {
      script.reattach("w1", { coordinators: HOSTS });
      seen.push(script.all("open").at(-1)?.address);
    }
    assert.deepEqual(seen, [...learned, options.server]);
    const said = script.all("note").filter(({ text }) => text.includes("only a Welcome named"));
    assert.equal(said.length, HOSTS.length - learned.length);
  });
}

test("connecting takes 3 s at most, Welcome 6 s", () => {
  const closed = (script: Script) => script.all("close").map((effect) => effect.stream);
  const script = new Script();
  script.wait(2_900);
  assert.deepEqual(closed(script), []);
  script.wait(101);
  assert.deepEqual(closed(script), [1]);
  script.wait(300);
  script.feed({ type: "opened", stream: 2 });
  script.wait(5_900);
  assert.deepEqual(closed(script), [1]);
  script.wait(101);
  assert.deepEqual(closed(script), [1, 2]);
});

test("a stream that is silent for two thirds of the lease is lost", () => {
  const script = attached();
  script.wait(3_300);
  assert.deepEqual(script.all("close"), []);
  script.wait(100);
  assert.deepEqual(script.all("close"), [{ type: "close", stream: 1 }]);
});

test("a stream that talks and does not renew the lease is lost at its end", () => {
  const script = attached();
  script.clear();
  for (let n = 0; n < 44; n += 1) {
    script.wait(100);
    script.recv(f.assignment());
  }
  assert.deepEqual(script.all("close"), []);
  script.wait(100);
  assert.deepEqual(script.all("close"), [{ type: "close", stream: 1 }]);
});

for (const code of ["UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"]) {
  test(`${code} by every coordinator before any Welcome ends the worker`, () => {
    const script = new Script();
    script.lost(code, "namespace prod is served here");
    assert.deepEqual(script.all("finish"), []);
    script.wait(300);
    script.lost(code, "namespace prod is served here");
    const defeat = { kind: "rejected", code, detail: "namespace prod is served here" } as const;
    assert.deepEqual(script.all("finish"), [{ type: "finish", defeat }]);
  });
}

test("a refusal that a repetition may mend is tried again", () => {
  const script = new Script();
  for (let n = 0; n < 6; n += 1) {
    script.lost("RESOURCE_EXHAUSTED", "too many");
    script.wait(11_000);
  }
  assert.deepEqual(script.all("finish"), []);
});

test("after a Welcome every refusal is tried again", () => {
  const script = attached();
  for (let n = 0; n < 4; n += 1) {
    script.reattach();
    script.lost("UNAUTHENTICATED", "credentials are being changed");
    script.wait(11_000);
  }
  assert.deepEqual(script.all("finish"), []);
});

test("runs go on while there is no stream", () => {
  const script = running();
  script.lost();
  script.wait(1_000);
  assert.deepEqual(script.stopped(), []);
  script.feed({ type: "progressed", key: key(5), percent: 10, message: "" });
  assert.ok(script.machine.deadline() > script.time, "progress without a stream wakes nobody");
});
