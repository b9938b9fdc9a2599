/** Frames as tests write them. Times are in milliseconds. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { instant, span, stamp } from "../../src/machine/time.js";
import { JobKind, RunOutcome, RunSource } from "../../src/proto/rosterd/v1/types_pb.js";
import {
  CallbackKind,
  CancelReason,
  ReportResult,
  SessionResponseSchema,
  type RegisteredSchema,
  type RunCompleted,
  type SessionResponse,
  type Trigger,
} from "../../src/proto/rosterd/v1/worker_pb.js";

export const FIRE = 1_700_000_000_000;

type FrameInit = NonNullable<MessageInitShape<typeof SessionResponseSchema>["frame"]>;
type TriggerInit = Partial<
  Pick<
    Trigger,
    "itemParameter" | "streaming" | "maxAttempts" | "retryBackoffMultiplier" | "offset" | "attempt" | "traceContext"
  >
>;

export const frame = (init: FrameInit): SessionResponse => create(SessionResponseSchema, { frame: init });
export const ref = (token: number, item = 0, job = "hello") => ({ job, item, token: BigInt(token) });

export interface WelcomeParts {
  lease?: number;
  interval?: number;
  budget?: number;
  credits?: number;
  coordinators?: string[];
}

export function welcome(workerId = "w1", parts: WelcomeParts = {}): SessionResponse {
  const { lease = 5_000, interval = 1_000, budget = 500, credits = 64, coordinators = [] } = parts;
  return frame({
    case: "welcome",
    value: {
      workerId,
      instanceId: `10.0.0.1@-@${workerId}`,
      resumeKey: `key of ${workerId}`,
      lease: span(lease),
      heartbeatInterval: span(interval),
      stopBudget: span(budget),
      maxUnacknowledgedReports: credits,
      coordinators,
    },
  });
}

export function registered(job = "hello", parts: MessageInitShape<typeof RegisteredSchema> = {}): SessionResponse {
  return frame({ case: "registered", value: { job, shardingTotalCount: 3, ...parts } });
}

export function assignment(props: Record<string, string> = {}, job = "hello"): SessionResponse {
  return frame({ case: "assignment", value: { job, props } });
}

export function refused(job = "hello", code = "JOB_UNKNOWN"): SessionResponse {
  return frame({ case: "refused", value: { job, code, message: "no such job" } });
}

export interface TriggerParts extends TriggerInit {
  item?: number;
  job?: string;
  timeoutMs?: number;
  backoffMs?: number;
  backoffMaxMs?: number;
  startsInMs?: number;
  fireMs?: number;
}

export function trigger(token: number, parts: TriggerParts = {}): SessionResponse {
  const { item = 0, job = "hello", timeoutMs, backoffMs, backoffMaxMs, startsInMs, fireMs = FIRE, ...rest } = parts;
  return frame({
    case: "trigger",
    value: {
      run: ref(token, item, job),
      fireTime: stamp(fireMs),
      source: RunSource.NORMAL_TRIGGER,
      shardingTotalCount: 3,
      itemParameter: `parameter ${item}`,
      jobParameter: "all",
      attempt: 1,
      maxAttempts: 1,
      kind: JobKind.SIMPLE,
      taskId: `${job}@-@${item}@-@READY@-@10.0.0.1@-@w1`,
      ...(timeoutMs === undefined ? {} : { timeout: span(timeoutMs) }),
      ...(backoffMs === undefined ? {} : { retryBackoff: span(backoffMs) }),
      ...(backoffMaxMs === undefined ? {} : { retryBackoffMax: span(backoffMaxMs) }),
      ...(startsInMs === undefined ? {} : { startsIn: span(startsInMs) }),
      ...rest,
    },
  });
}

export function cancel(token: number, reason: keyof typeof CancelReason = "OPERATOR", item = 0): SessionResponse {
  return frame({ case: "cancel", value: { run: ref(token, item), reason: CancelReason[reason] } });
}

export function heartbeatAck(sequence: bigint | number): SessionResponse {
  return frame({ case: "heartbeatAck", value: { sequence: BigInt(sequence) } });
}

export function reportAck(
  token: number,
  parts: { item?: number; result?: keyof typeof ReportResult; job?: string; code?: string; message?: string } = {},
): SessionResponse {
  const { item = 0, result = "ACCEPTED", job = "hello", code = "", message = "" } = parts;
  return frame({
    case: "reportAck",
    value: { run: ref(token, item, job), result: ReportResult[result], code, message },
  });
}

export function callback(callbackId: string, kind: keyof typeof CallbackKind, timeout = 5_000): SessionResponse {
  return frame({
    case: "callback",
    value: { callbackId, job: "hello", fireTime: stamp(FIRE), kind: CallbackKind[kind], timeout: span(timeout) },
  });
}

export function drain(grace?: number): SessionResponse {
  return frame({
    case: "drain",
    value: { message: "upgrade", ...(grace === undefined ? {} : { grace: span(grace) }) },
  });
}

export const draining = (): SessionResponse => frame({ case: "draining", value: {} });
export const goodbyeAck = (): SessionResponse => frame({ case: "goodbyeAck", value: {} });
export const shutdown = (job = ""): SessionResponse => frame({ case: "shutdown", value: { job, message: "by hand" } });
export const outcome = (report: RunCompleted): string => RunOutcome[report.outcome];
export const took = (report: RunCompleted): number => instant(report.endedAt) - instant(report.startedAt);
