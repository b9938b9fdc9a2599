/** One run in flight, and what is reported about it. Pure; called by inflight.ts. */

import { create } from "@bufbuild/protobuf";
import { RunOutcome } from "../proto/rosterd/v1/types_pb.js";
import { RunCompletedSchema, type RunCompleted, type Trigger } from "../proto/rosterd/v1/worker_pb.js";
import { shorten } from "../text.js";
import { millis, stamp } from "./time.js";
import { refOf, StopReason, type Ending, type EndKind, type Key } from "./types.js";

export const MAX_ERROR = 8 * 1024;
export const MAX_OUTPUT = 64 * 1024;

const OUTCOME_OF_STOP: Readonly<Record<StopReason, RunOutcome>> = {
  [StopReason.OPERATOR]: RunOutcome.CANCELLED,
  [StopReason.TIMED_OUT]: RunOutcome.TIMED_OUT,
  [StopReason.DRAIN]: RunOutcome.HANDED_BACK,
  [StopReason.LEASE]: RunOutcome.ABORTED,
  [StopReason.FENCED]: RunOutcome.ABORTED,
  // Such a run is not reported.
  [StopReason.DEAD]: RunOutcome.ABORTED,
};
const OUTCOME_OF_END: Readonly<Record<EndKind, RunOutcome>> = {
  returned: RunOutcome.SUCCEEDED,
  raised: RunOutcome.FAILED,
  fatal: RunOutcome.FAILED,
  cancelled: RunOutcome.CANCELLED,
  // A later attempt that could not begin: user code of this run has been called before.
  "not begun": RunOutcome.ABORTED,
};

export type Phase =
  /** Its time has not come. */
  | "waiting"
  | "in user code"
  /** A failed attempt waits for the next one. */
  | "between"
  /** Only the report is left. */
  | "reported";

/** A run's messages before it ends. */
export interface Progress {
  readonly percent: number;
  readonly message: string;
  readonly offset?: Uint8Array | undefined;
}

/** A run in flight. */
export interface InFlightRun {
  readonly key: Key;
  readonly trigger: Trigger;
  readonly instanceId: string;
  readonly props: Readonly<Record<string, string>>;
  /** The stream of its Trigger. */
  readonly stream: number;
  attempt: number;
  offset: Uint8Array;
  phase: Phase;
  stop: StopReason | undefined;
  newOffset: Uint8Array | undefined;
  processed: number;
  failed: number;
  startedAt: number | undefined;
  /** When the current attempt began, on the wall clock, until that is reported. */
  toldFrom: number | undefined;
  timeoutAt: number;
  deadline: number | undefined;
  /** When it begins (waiting), or begins again (between). */
  nextAt: number;
  progress: Progress | undefined;
  /** The latest progress, which another coordinator may not know. */
  progressed: Progress | undefined;
  progressAt: number;
  report: RunCompleted | undefined;
  /** The report replaces one that was refused. */
  replaces: boolean;
}

export function newRun(
  key: Key,
  trigger: Trigger,
  stream: number,
  instanceId: string,
  props: Readonly<Record<string, string>>,
): InFlightRun {
  return {
    key,
    trigger,
    instanceId,
    props,
    stream,
    attempt: Math.max(1, trigger.attempt),
    offset: trigger.offset,
    phase: "in user code",
    stop: undefined,
    newOffset: undefined,
    processed: 0,
    failed: 0,
    startedAt: undefined,
    toldFrom: undefined,
    timeoutAt: Infinity,
    deadline: undefined,
    nextAt: 0,
    progress: undefined,
    progressed: undefined,
    progressAt: -Infinity,
    report: undefined,
    replaces: false,
  };
}

export function outcomeOf(run: InFlightRun, ending: Ending): RunOutcome {
  const { stop } = run;
  const neverBegan = ending.kind === "not begun" && run.startedAt === undefined;
  if (neverBegan && (stop === undefined || stop === StopReason.LEASE || stop === StopReason.FENCED)) {
    return RunOutcome.NOT_STARTED;
  }
  return stop === undefined ? OUTCOME_OF_END[ending.kind] : OUTCOME_OF_STOP[stop];
}

export function reportOf(
  run: InFlightRun,
  wall: number,
  outcome: RunOutcome,
  error: string,
  output: string,
): RunCompleted {
  return create(RunCompletedSchema, {
    run: refOf(run.key),
    outcome,
    error: shorten(error, MAX_ERROR),
    output: shorten(output, MAX_OUTPUT),
    processed: BigInt(run.processed),
    failed: BigInt(run.failed),
    ...(run.newOffset === undefined ? {} : { offset: run.newOffset }),
    ...(run.startedAt === undefined ? {} : { startedAt: stamp(run.startedAt) }),
    endedAt: stamp(wall),
    attempt: run.attempt,
  });
}

/** Nothing of a refused report was written: without another one the run would stay in the coordinator's records. */
export function reportInstead(run: InFlightRun, refused: RunCompleted, why: string): RunCompleted {
  const { startedAt, endedAt } = refused;
  return create(RunCompletedSchema, {
    run: refOf(run.key),
    outcome: RunOutcome.FAILED,
    error: shorten(`the report ${RunOutcome[refused.outcome]} was refused: ${why}`, MAX_ERROR),
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(endedAt === undefined ? {} : { endedAt }),
    attempt: run.attempt,
  });
}

/** The pause after attempt number `attempt` has failed. */
export function pauseAfter(trigger: Trigger, attempt: number): number {
  // The bound applies long before a number overflows.
  const factor = Math.max(trigger.retryBackoffMultiplier, 1) ** Math.min(attempt - 1, 30);
  const longest = trigger.retryBackoffMax === undefined ? Infinity : millis(trigger.retryBackoffMax);
  return Math.min(millis(trigger.retryBackoff) * factor, longest);
}
