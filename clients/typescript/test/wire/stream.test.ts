/** Streams, leases and leaving against a scripted coordinator. Every wait is for a state. */

import assert from "node:assert/strict";
import { status } from "@grpc/grpc-js";
import { createServer } from "node:net";
import { afterEach, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { JobRefused, Rejected } from "../../src/index.js";
import { Coordinator, PATIENCE, type Session } from "../tools/coordinator.js";
import * as f from "../tools/frames.js";
import { Lines, Program, until, Working, workerOf } from "../tools/workers.js";

let coordinators: Coordinator[];
let coordinator: Coordinator;
let working: Working | undefined;

async function another(port = 0): Promise<Coordinator> {
  const started = await Coordinator.start(port);
  coordinators.push(started);
  return started;
}

beforeEach(async () => {
  coordinators = [];
  coordinator = await another();
});

afterEach(async () => {
  working?.worker.stop(0);
  for (const one of coordinators) one.stop();
  await working?.over.catch(() => undefined);
  working = undefined;
});

async function greeted(parts: Parameters<Session["greet"]>[1] = {}): Promise<Session> {
  const session = await coordinator.accept();
  await session.greet("w1", parts);
  return session;
}

test("a resume lists the runs and sends what is not acknowledged again, on one stream at a time", async () => {
  let finish: (() => void) | undefined;
  working = new Working(
    workerOf(coordinator.address).job("hello", (run) =>
      run.item === 0 ? undefined : new Promise<void>((resolve) => (finish = resolve)),
    ),
  );
  const session = await greeted();
  session.send(f.trigger(7), f.trigger(8, { item: 1 }));
  assert.equal(f.outcome(await session.expect("runCompleted")), "SUCCEEDED");
  await until(() => finish, "the second run");
  session.end(status.UNAVAILABLE);
  const next = await coordinator.accept();
  const hello = await next.greet();
  assert.deepEqual([hello.workerId, hello.resumeKey, hello.streamNumber], ["w1", "key of w1", 2n]);
  assert.deepEqual(hello.runsInFlight.map((run) => run.token).sort(), [7n, 8n]);
  assert.equal((await next.expect("runCompleted")).run?.token, 7n);
  next.send(f.reportAck(7));
  finish?.();
  assert.equal((await next.expect("runCompleted")).run?.token, 8n);
  next.send(f.reportAck(8, { item: 1 }));
  await working.leave(next);
  assert.equal(coordinator.mostOpenSessions, 1);
});

test("the next coordinator takes over, also one that only Welcome named", async () => {
  const second = await another();
  working = new Working(workerOf(coordinator.address).job("hello", () => undefined));
  await greeted({ coordinators: [`http://${second.address}`] });
  coordinator.stop();
  const session = await second.accept();
  assert.equal((await session.greet()).streamNumber >= 2n, true);
  await working.leave(session);
});

test("a credential goes nowhere in plain text, also where it is Welcome that named the address", async () => {
  const logger = new Lines();
  const worker = workerOf(coordinator.address, { credential: "s3cret", logger, leaveTimeoutMs: 100 }).job(
    "hello",
    () => undefined,
  );
  working = new Working(worker);
  await greeted({ coordinators: ["http://192.0.2.1:7700"] });
  const passedOver = (line: string) => line.includes("http://192.0.2.1:7700") && line.includes("only a Welcome named");
  await until(() => logger.all.some(passedOver), "it is passed over");
  assert.ok(!logger.all.some((line) => line.includes("s3cret")));
  worker.stop(0);
});

test("a coordinator that comes up later is found", async () => {
  const { port } = coordinator;
  coordinator.stop();
  working = new Working(workerOf(`127.0.0.1:${port}`).job("hello", () => undefined));
  const session = await (await another(port)).accept();
  await session.greet();
  await working.leave(session);
});

test("a lease that is not renewed stops runs, and they are reported ABORTED", async () => {
  coordinator.answerHeartbeats = false;
  let reason = "";
  working = new Working(
    workerOf(coordinator.address).job("hello", async (run, signal) => {
      await sleep(PATIENCE, undefined, { signal }).catch(() => undefined);
      reason = run.cancelReason;
    }),
  );
  const session = await greeted({ lease: 2_400, interval: 300, budget: 200 });
  session.send(f.trigger(7));
  await session.expect("runStarted", ["heartbeat"]);
  await session.closed;
  const next = await coordinator.accept();
  await until(() => reason, "the run is told");
  const hello = await next.greet("w1", { lease: 60_000 });
  assert.deepEqual(
    hello.runsInFlight.map((run) => run.token),
    [7n],
  );
  const report = await next.expect("runCompleted");
  assert.deepEqual([f.outcome(report), reason], ["ABORTED", "the lease ended"]);
  next.send(f.reportAck(7));
  await working.leave(next);
});

test("another identity fences the runs of the old one", async () => {
  const reasons: string[] = [];
  working = new Working(
    workerOf(coordinator.address).job("hello", async (run, signal) => {
      await sleep(PATIENCE, undefined, { signal }).catch(() => reasons.push(run.cancelReason));
    }),
  );
  const session = await greeted();
  session.send(f.trigger(7));
  await session.expect("runStarted", ["heartbeat"]);
  session.end();
  const next = await coordinator.accept();
  await next.greet("w2");
  await until(() => reasons.length > 0, "the run is told");
  assert.deepEqual(reasons, ["the worker had been marked dead"]);
  next.send(f.trigger(8));
  await next.expect("runStarted", ["heartbeat"]);
  await next.expectHeartbeatWith(8);
  next.send(f.cancel(8));
  assert.equal((await next.expect("runCompleted")).run?.token, 8n);
  next.send(f.reportAck(8));
  await working.leave(next);
});

test("the only job refused is an error with its code", async () => {
  working = new Working(workerOf(coordinator.address).job("hello", () => undefined));
  const session = await coordinator.accept();
  await session.expect("hello");
  session.send(f.welcome());
  await session.expect("register");
  session.send(f.refused());
  await session.farewell();
  await assert.rejects(working.over, (error: JobRefused) => {
    assert.ok(error instanceof JobRefused);
    assert.equal(error.message, "job 'hello' was refused: JOB_UNKNOWN: no such job");
    return error.code === "JOB_UNKNOWN" && error.job === "hello";
  });
});

test("a rejected worker is an error with its code", async () => {
  working = new Working(workerOf(coordinator.address).job("hello", () => undefined));
  const session = await coordinator.accept();
  await session.expect("hello");
  session.end(status.UNAUTHENTICATED);
  await assert.rejects(working.over, (error: Rejected) => {
    assert.ok(error instanceof Rejected);
    return error.code === "UNAUTHENTICATED" && error.detail === "as the script says";
  });
});

test("a server that is none of ours is not asked for ever", async () => {
  const silent = createServer((socket) => socket.on("error", () => undefined));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as { port: number };
  const lines = new Lines();
  working = new Working(
    workerOf(`127.0.0.1:${port}`, { connectTimeoutMs: 200, logger: lines }).job("hello", () => undefined),
  );
  await until(() => lines.all.filter((line) => line.includes("cannot connect to")).length >= 2, "two attempts");
  working.worker.stop();
  await working.over;
  silent.close();
});

test("Drain lets runs finish, then hands them back", async () => {
  working = new Working(
    workerOf(coordinator.address).job("hello", (_, signal) => sleep(PATIENCE, undefined, { signal })),
  );
  const session = await greeted();
  session.send(f.trigger(7));
  await session.expect("runStarted", ["heartbeat"]);
  session.send(f.drain(300));
  await session.expect("drainRequest");
  session.send(f.draining());
  assert.equal(f.outcome(await session.expect("runCompleted")), "HANDED_BACK");
  session.send(f.reportAck(7));
  await session.expect("goodbye");
  session.send(f.goodbyeAck());
  await working.over;
});

test("an AbortSignal of the program makes the worker leave, also one that was aborted before", async () => {
  const controller = new AbortController();
  const worker = workerOf(coordinator.address).job("hello", () => undefined);
  const over = worker.run({ signals: false, signal: controller.signal });
  const session = await greeted();
  controller.abort();
  await session.farewell();
  await over;
  await workerOf(coordinator.address)
    .job("hello", () => undefined)
    .run({ signals: false, signal: AbortSignal.abort() });
});

test("health tells whether the worker is attached", async () => {
  const worker = workerOf(coordinator.address, { health: { port: 0 } }).job("hello", () => undefined);
  working = new Working(worker);
  const session = await coordinator.accept();
  await until(() => worker.healthPort, "health");
  const ask = async (path: string) => (await fetch(`http://127.0.0.1:${String(worker.healthPort)}${path}`)).status;
  assert.deepEqual([await ask("/healthz"), await ask("/readyz"), await ask("/")], [200, 503, 404]);
  await session.greet();
  await until(async () => (await ask("/readyz")) === 200, "ready");
  worker.stop();
  await session.expect("drainRequest");
  assert.deepEqual([await ask("/healthz"), await ask("/readyz")], [200, 503]);
  session.send(f.draining());
  await session.expect("goodbye");
  session.send(f.goodbyeAck());
  await working.over;
});

// ---- a process of its own

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`${signal} drains: runs end, every report is acknowledged, then the process ends`, async () => {
    const program = new Program(coordinator, ["hello"], { ROSTERD_CREDENTIAL: "from-the-environment" });
    try {
      const session = await greeted({ interval: 100 });
      assert.equal(session.metadata.authorization, "Bearer from-the-environment");
      session.send(f.trigger(7, { itemParameter: "sleep 500;output done" }));
      await session.expect("runStarted", ["heartbeat"]);
      program.kill(signal);
      // Like supervisors: the process, and then its group.
      program.kill(signal === "SIGTERM" ? "SIGINT" : "SIGTERM");
      await session.expect("drainRequest");
      session.send(f.draining());
      await session.expectHeartbeatWith(7);
      const report = await session.expect("runCompleted");
      assert.deepEqual([f.outcome(report), report.output], ["SUCCEEDED", "done"]);
      session.send(f.reportAck(7));
      await session.expect("goodbye");
      assert.equal(program.child.exitCode, null);
      session.send(f.goodbyeAck());
      assert.deepEqual(await program.exit, [0, null]);
      const said = program.errors.match(/signal received: leaving once 1 run in flight \(hello\/0 token 7\) ended/g);
      assert.equal(said?.length, 1, program.errors);
    } finally {
      program.kill();
    }
  });
}

test("a second signal ends the process at once, also with a handler that never ends", async () => {
  const program = new Program(coordinator);
  try {
    const session = await greeted({ interval: 100 });
    session.send(f.trigger(7, { itemParameter: "ignore 60000" }));
    await session.expect("runStarted", ["heartbeat"]);
    program.kill("SIGTERM");
    await session.expect("drainRequest");
    // A signal within a second of the first counts as the first, so repeat it until one is later.
    const again = setInterval(() => program.kill("SIGTERM"), 100);
    const exit = await program.exit;
    clearInterval(again);
    assert.deepEqual(exit, [143, null]);
    assert.match(program.errors, /second signal received: exiting immediately; runs in flight are recorded as crashed/);
    await session.closed;
  } finally {
    program.kill();
  }
});

test("a handler that ignores to be stopped does not keep the process after the worker has left", async () => {
  const program = new Program(coordinator);
  try {
    const session = await greeted({ interval: 100 });
    session.send(f.trigger(7, { itemParameter: "ignore 600000" }));
    await session.expect("runStarted", ["heartbeat"]);
    session.send(f.drain(0));
    await session.expect("drainRequest");
    // Its time ends after 10 s; the signal ends the process earlier.
    program.kill("SIGTERM");
    await session.closed;
    assert.deepEqual(await program.exit, [1, null]);
    assert.match(program.errors, /LeaveTimedOut/);
  } finally {
    program.kill();
  }
});

test("a cancel reaches a handler that never awaits", async () => {
  const program = new Program(coordinator);
  try {
    const session = await greeted({ interval: 100 });
    session.send(f.trigger(7, { itemParameter: "busy 60000" }));
    await session.expect("runStarted", ["heartbeat"]);
    session.send(f.cancel(7));
    const report = await session.expect("runCompleted");
    assert.deepEqual([f.outcome(report), report.error], ["CANCELLED", "an operator asked for it"]);
    session.send(f.reportAck(7));
  } finally {
    program.kill();
  }
});

test("an acknowledgement that waited in the socket while the process stood still counts first, whatever came before it", async () => {
  coordinator.answerHeartbeats = false;
  const program = new Program(coordinator);
  try {
    // The first lease ends some 7 s after the Hello, that of the heartbeat some 3 s later.
    const session = await greeted({ lease: 9_000, interval: 3_000, budget: 2_000 });
    const begun = performance.now();
    session.send(f.trigger(7, { itemParameter: "sleep 60000" }));
    const { sequence } = await session.expect("heartbeat", ["runStarted"]);
    program.kill("SIGSTOP");
    await until(() => performance.now() > begun + 7_500, "the first lease is over");
    session.send(f.assignment(), f.heartbeatAck(sequence));
    coordinator.answerHeartbeats = true;
    await until(() => performance.now() > begun + 8_000, "they are in the socket");
    program.kill("SIGCONT");
    await session.expectHeartbeatWith(7);
    session.send(f.cancel(7));
    assert.equal(f.outcome(await session.expect("runCompleted")), "CANCELLED", program.errors);
  } finally {
    program.kill();
  }
});

test("a process that stood still past its lease takes nothing for done", async () => {
  const program = new Program(coordinator);
  try {
    const session = await greeted({ lease: 2_000, interval: 200, budget: 100 });
    session.send(f.trigger(7, { itemParameter: "busy 60000" }));
    await session.expect("runStarted", ["heartbeat"]);
    program.kill("SIGSTOP");
    const stopped = performance.now();
    await until(() => performance.now() > stopped + 3_000, "the lease is over");
    program.kill("SIGCONT");
    // On this stream, or on the next if this one was silent for too long.
    const report = await session.expect("runCompleted").catch(async () => {
      const next = await coordinator.accept();
      await next.greet();
      return next.expect("runCompleted");
    });
    assert.equal(f.outcome(report), "ABORTED");
  } finally {
    program.kill();
  }
});
