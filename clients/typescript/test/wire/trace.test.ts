/** The trace of a run: what the Trigger carries reaches the handler, and OpenTelemetry's current context is that of the trace. */

import assert from "node:assert/strict";
import { context, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Coordinator } from "../tools/coordinator.js";
import * as f from "../tools/frames.js";
import { Working, workerOf } from "../tools/workers.js";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

test("a handler is called within the trace that its Trigger names", async (t) => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const coordinator = await Coordinator.start();
  t.after(() => {
    coordinator.stop();
  });
  const seen: unknown[] = [];
  const worker = workerOf(coordinator.address);
  worker.job("hello", async (run) => {
    // Also behind an await.
    await sleep(1);
    const active = trace.getSpanContext(context.active());
    seen.push(run.traceContext, [active?.traceId, active?.spanId, active?.isRemote]);
  });
  const working = new Working(worker);
  const session = await coordinator.accept();
  await session.greet("w1");
  const traceContext = { traceparent: `00-${TRACE}-${SPAN}-01` };
  session.send(f.trigger(7, { traceContext }));
  assert.equal(f.outcome(await session.expect("runCompleted")), "SUCCEEDED");
  session.send(f.reportAck(7));
  assert.deepEqual(seen, [traceContext, [TRACE, SPAN, true]]);
  await working.leave(session);
});
