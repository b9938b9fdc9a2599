/** Types that the machine, its thread and user code share. All values may be posted from thread to thread. */

import { create } from "@bufbuild/protobuf";
import { RunRefSchema, type RunRef } from "../proto/rosterd/v1/types_pb.js";
import type { Trusted } from "./hosts.js";

/** One instant on both clocks, in milliseconds. */
export interface Now {
  /** For leases and timers: never set back, of no known origin. */
  readonly boot: number;
  /** For people and for comparison with the coordinator's times: since 1970, UTC. */
  readonly wall: number;
}

/** Names one run; the token is its fencing token. */
export interface Key {
  readonly job: string;
  readonly item: number;
  readonly token: bigint;
}

/** For maps. */
export type KeyId = string;

export const keyOf = (ref: RunRef): Key => ({ job: ref.job, item: ref.item, token: ref.token });
export const refOf = (key: Key): RunRef => create(RunRefSchema, { job: key.job, item: key.item, token: key.token });
export const itemId = (key: Key): string => `${key.item}/${key.job}`;
export const keyId = (key: Key): KeyId => `${key.token}/${itemId(key)}`;
export const keyText = (key: Key): string => `${key.job}/${key.item} token ${String(key.token)}`;
export const sameItem = (one: Key, other: Key): boolean => one.item === other.item && one.job === other.job;

/** Why user code must stop; determines the report once it has ended. */
export const StopReason = {
  OPERATOR: "an operator asked for it",
  TIMED_OUT: "its time is over",
  DRAIN: "the worker leaves",
  LEASE: "the lease ended",
  FENCED: "another run of the item took its place",
  /** The coordinator gave this process a new identity: no report is expected. */
  DEAD: "the worker had been marked dead",
} as const;
export type StopReason = (typeof StopReason)[keyof typeof StopReason];

/** How an attempt ended. */
export type EndKind =
  | "returned"
  | "raised"
  /** Raised, and another attempt would not help. */
  | "fatal"
  | "cancelled"
  /** The last check, on the thread that was about to call user code, failed. */
  | "not begun";

/** How one attempt of a run ended. */
export interface Ending {
  readonly kind: EndKind;
  readonly output?: string;
  readonly error?: string;
  readonly processed?: number;
  readonly failed?: number;
  readonly offset?: Uint8Array | undefined;
}

/** The error that ends the worker, in a form that can be posted. */
export type Defeat =
  | { readonly kind: "refused"; readonly code: string; readonly detail: string; readonly job: string }
  | { readonly kind: "rejected"; readonly code: string; readonly detail: string }
  | { readonly kind: "leave timed out"; readonly inFlight: number }
  | { readonly kind: "internal"; readonly detail: string };

/** The options that the machine needs; times are in milliseconds. */
export interface Settings {
  readonly servers: readonly string[];
  /** The coordinators to trust that only a Welcome has named; undefined: all. */
  readonly trusted?: Trusted | undefined;
  readonly namespace: string;
  readonly address: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly slots: number;
  readonly drainTimeoutMs: number;
  readonly leaveTimeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly longestDelayMs: number;
}

/** The registration of a job. */
export interface Registration {
  readonly job: string;
  readonly handlerType: string;
  readonly config: string;
  readonly overwrite: boolean;
}
