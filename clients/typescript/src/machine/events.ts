/** The input (events) and output (effects) of the conversation machine. */

import type { Callback, SessionRequest, SessionResponse } from "../proto/rosterd/v1/worker_pb.js";
import type { Trigger } from "../proto/rosterd/v1/worker_pb.js";
import type { Defeat, Ending, Key, StopReason } from "./types.js";

export type Frame = SessionRequest["frame"];
export type Level = "debug" | "info" | "warn" | "error";

export type Event =
  | { readonly type: "start" }
  /** A timer is due. */
  | { readonly type: "tick" }
  /** The connection is open, and frames can be sent. */
  | { readonly type: "opened"; readonly stream: number }
  /** The stream ended or never came to be; code is the name of a gRPC status or empty. */
  | { readonly type: "lost"; readonly stream: number; readonly code: string; readonly detail: string }
  | { readonly type: "received"; readonly stream: number; readonly frame: SessionResponse }
  | UserEvent;

/** Events from the thread of user code; these may be posted. */
export type UserEvent =
  /** User code is about to be called. */
  | { readonly type: "began"; readonly key: Key }
  /** User code has ended. */
  | { readonly type: "ended"; readonly key: Key; readonly ending: Ending }
  /** User code has found by its own check that its lease had expired, and acts on that. */
  | { readonly type: "expired"; readonly key: Key }
  | {
      readonly type: "progressed";
      readonly key: Key;
      readonly percent: number;
      readonly message: string;
      readonly offset?: Uint8Array | undefined;
    }
  | { readonly type: "callbackEnded"; readonly id: string; readonly error: string }
  /**
   * Leave in order; runs have `grace` milliseconds, undefined: the drain timeout. If a signal requested it, the log
   * tells its sender what the worker waits for, and how to end it immediately.
   */
  | { readonly type: "leave"; readonly grace?: number | undefined; readonly signalled?: boolean }
  /** Leave now, without a goodbye. */
  | { readonly type: "quit" };

/** Call user code; answered by Began (unless the last check failed) and Ended. */
export interface StartRun {
  readonly type: "startRun";
  readonly key: Key;
  readonly trigger: Trigger;
  readonly instanceId: string;
  readonly attempt: number;
  readonly offset: Uint8Array;
  /** Milliseconds since 1970; undefined: it counts from when user code starts, or there is none. */
  readonly deadline: number | undefined;
  /** The job's, as they were when the Trigger arrived. */
  readonly props: Readonly<Record<string, string>>;
  /** The stream that must be the current one when user code begins; 0: any, it has begun before. */
  readonly stream: number;
}

export type Effect =
  /** Connect, once every earlier stream is closed; answered by Opened or Lost. */
  | { readonly type: "open"; readonly stream: number; readonly address: string }
  | { readonly type: "close"; readonly stream: number }
  | { readonly type: "send"; readonly stream: number; readonly frame: Frame }
  | StartRun
  | { readonly type: "stopRun"; readonly key: Key; readonly reason: StopReason }
  | { readonly type: "startCallback"; readonly callback: Callback }
  /** The worker is attached or no longer is. */
  | { readonly type: "attached"; readonly server: string; readonly instanceId: string }
  | { readonly type: "detached"; readonly server: string; readonly reason: string }
  /** An acknowledgement has renewed the lease, this long after its heartbeat was sent. */
  | { readonly type: "renewed"; readonly roundTrip: number }
  /** The worker is leaving: runs that can stop early may. */
  | { readonly type: "leaving" }
  | { readonly type: "note"; readonly level: Level; readonly text: string }
  /** The machine's last effect. */
  | { readonly type: "finish"; readonly defeat: Defeat | undefined };

export type Emit = (effect: Effect) => void;
export type SendFrame = (frame: Frame) => void;
export type Notify = (level: Level, text: string) => void;
