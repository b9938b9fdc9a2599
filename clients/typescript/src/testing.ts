/**
 * Runs for tests of handlers: no coordinator, no network, no thread.
 *
 * ```ts
 * const end = await runHandler(handler, { item: 2, itemParameter: "Beijing" });
 * assert.equal(end.outcome, "SUCCEEDED");
 * ```
 *
 * @packageDocumentation
 */

import { create } from "@bufbuild/protobuf";
import { describe, textOf } from "./describe.js";
import { Cancelled, Fatal } from "./errors.js";
import { attempt, dataflowHandler, jobOf, type Dataflow, type Handler, type JobOptions } from "./job.js";
import { withIds, withRunIds, type Logger } from "./log.js";
import { stamp } from "./machine/time.js";
import { StopReason } from "./machine/types.js";
import { RunSource } from "./proto/rosterd/v1/types_pb.js";
import { TriggerSchema } from "./proto/rosterd/v1/worker_pb.js";
import { Run, type Source } from "./run.js";
import { findTracing, withTrace } from "./trace.js";

/** The input of the run; all fields are optional. */
export interface RunInit {
  job?: string;
  item?: number;
  token?: bigint;
  total?: number;
  itemParameter?: string;
  jobParameter?: string;
  props?: Readonly<Record<string, string>>;
  fireTime?: Date;
  source?: Source;
  attempt?: number;
  offset?: Uint8Array | string;
  deadline?: Date;
  streaming?: boolean;
  traceContext?: Readonly<Record<string, string>>;
  /** Once it is aborted the run must stop: its reason becomes an operator's. */
  cancel?: AbortSignal;
  /** The worker is leaving. */
  leaving?: boolean;
  logger?: Logger;
}

/** How the run ended. */
export interface RunResult {
  readonly outcome: "SUCCEEDED" | "FAILED" | "CANCELLED";
  /** Another attempt would follow, if the job has more. */
  readonly retryable: boolean;
  /** The recorded form of the handler's return value. */
  readonly output: string;
  /** The recorded form of the handler's error. */
  readonly error: string;
  /** The error itself. */
  readonly thrown: unknown;
  readonly processed: number;
  readonly failed: number;
  /** Undefined: it was not set. */
  readonly offset: Buffer | undefined;
  readonly progress: readonly { readonly percent: number; readonly message: string }[];
}

/** Calls a handler once, with its hooks, as a worker would. */
export async function runHandler(handler: Handler, init: RunInit = {}, options: JobOptions = {}): Promise<RunResult> {
  await findTracing();
  const progress: { percent: number; message: string }[] = [];
  const run = runFor(init, progress);
  const stop = () => run.stop(StopReason.OPERATOR);
  init.cancel?.addEventListener("abort", stop, { once: true });
  if (init.cancel?.aborted === true) stop();
  let thrown: unknown;
  let output = "";
  let returned = false;
  try {
    const job = jobOf(run.job, handler, options);
    output = textOf(await withIds(run.ids, () => withTrace(run.traceContext, () => attempt(job, run))));
    returned = true;
  } catch (error) {
    thrown = error;
  } finally {
    init.cancel?.removeEventListener("abort", stop);
  }
  const cancelled = run.cancelled || thrown instanceof Cancelled;
  const { processed, failed, offset } = run.close();
  return {
    outcome: cancelled ? "CANCELLED" : returned ? "SUCCEEDED" : "FAILED",
    retryable: !returned && !cancelled && !(thrown instanceof Fatal),
    output,
    error: returned ? "" : thrown instanceof Cancelled ? thrown.message : describe(thrown),
    thrown,
    processed,
    failed,
    offset: offset === undefined ? undefined : Buffer.from(offset),
    progress,
  };
}

/** The same for a dataflow. */
export function runDataflow<T>(flow: Dataflow<T>, init: RunInit = {}): Promise<RunResult> {
  return runHandler(dataflowHandler(init.job ?? "test", flow), init, flow);
}

const SILENT: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

function runFor(init: RunInit, progress: { percent: number; message: string }[]): Run {
  const { job = "test", item = 0, token = 1n, total = 1, props = {}, offset = "" } = init;
  const instanceId = "127.0.0.1@-@test";
  const trigger = create(TriggerSchema, {
    run: { job, item, token },
    fireTime: stamp((init.fireTime ?? new Date()).getTime()),
    source: RunSource[init.source ?? "MANUAL"],
    shardingTotalCount: total,
    itemParameter: init.itemParameter ?? "",
    jobParameter: init.jobParameter ?? "",
    streaming: init.streaming ?? false,
    traceContext: { ...init.traceContext },
    taskId: `${job}@-@${item}@-@READY@-@${instanceId}`,
  });
  const parts = {
    key: { job, item, token },
    trigger,
    instanceId,
    attempt: init.attempt ?? 1,
    offset: Buffer.from(offset as Uint8Array),
    deadline: init.deadline?.getTime(),
    props,
  };
  return new Run(parts, {
    leaseOver: () => false,
    told: () => undefined,
    leaving: () => init.leaving ?? false,
    expired: () => undefined,
    progress: (_, percent, message) => progress.push({ percent, message }),
    now: () => performance.now(),
    log: withRunIds(init.logger ?? SILENT),
  });
}
