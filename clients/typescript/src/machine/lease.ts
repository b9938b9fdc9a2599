/**
 * The worker's lease: until when it may assume that no other worker runs its items.
 *
 * It counts from when the last acknowledged heartbeat (at first the Hello) was *sent*; the coordinator counts from when
 * it received it, which is later. So no synchronized clocks are needed. All times are milliseconds.
 */

import type { Registered, Welcome } from "../proto/rosterd/v1/worker_pb.js";
import { millis } from "./time.js";

/** How much faster than ours a coordinator's clock may run. */
export const DRIFT = 0.005;
const DEFAULT_LEASE = 5_000;
const DEFAULT_INTERVAL = 1_000;
const DEFAULT_STOP_BUDGET = 500;

export class Lease {
  #length = DEFAULT_LEASE;
  #interval = DEFAULT_INTERVAL;
  #stopBudget = DEFAULT_STOP_BUDGET;
  // The shortest lease and interval that a job has requested. It never grows back under one identity: the coordinator
  // uses what the heartbeats state, and would mark dead a worker that assumes more.
  #agreed: { length: number; interval: number } | undefined;
  #since: number | undefined;
  #sequence = 0n;
  readonly #sent = new Map<bigint, number>();

  get length(): number {
    return Math.min(this.#length, this.#agreed?.length ?? Infinity);
  }

  get interval(): number {
    return Math.min(this.#interval, this.#agreed?.interval ?? Infinity, this.length / 3);
  }

  /** How long a stream may be silent before the worker abandons it. */
  get patience(): number {
    return (this.length * 2) / 3;
  }

  /** When runs must stop; in the past if there is no lease. */
  get stopsAt(): number {
    if (this.#since === undefined) return -Infinity;
    // A quarter of a short lease, so that one heartbeat may get lost.
    const budget = Math.min(this.#stopBudget, this.length / 4);
    return this.#since + this.length * (1 - DRIFT) - budget;
  }

  valid(boot: number): boolean {
    return boot < this.stopsAt;
  }

  /** Heartbeats of an abandoned stream are no longer acknowledged. */
  beginStream(): void {
    this.#sequence = 0n;
    this.#sent.clear();
  }

  welcomed(helloSent: number, welcome: Welcome, sameIdentity: boolean): void {
    this.#length = millis(welcome.lease) || DEFAULT_LEASE;
    this.#interval = millis(welcome.heartbeatInterval) || DEFAULT_INTERVAL;
    this.#stopBudget = welcome.stopBudget === undefined ? DEFAULT_STOP_BUDGET : millis(welcome.stopBudget);
    if (!sameIdentity) this.#agreed = undefined;
    this.#since = sameIdentity ? Math.max(this.#since ?? helloSent, helloSent) : helloSent;
  }

  agreed(registered: Registered): void {
    const length = millis(registered.lease);
    if (length <= 0) return;
    const interval = millis(registered.heartbeatInterval) || length / 3;
    this.#agreed = {
      length: Math.min(length, this.#agreed?.length ?? Infinity),
      interval: Math.min(interval, this.#agreed?.interval ?? Infinity),
    };
  }

  /** The number of a heartbeat that is sent now. */
  heartbeat(boot: number): bigint {
    this.#sequence += 1n;
    this.#sent.set(this.#sequence, boot);
    return this.#sequence;
  }

  /**
   * When the heartbeat was sent, if it renews the lease: one that was not sent, or was acknowledged before, does not.
   */
  acknowledged(sequence: bigint): number | undefined {
    const sent = this.#sent.get(sequence);
    if (sent === undefined || this.#since === undefined) return undefined;
    this.#since = Math.max(this.#since, sent);
    for (const number of this.#sent.keys()) if (number <= sequence) this.#sent.delete(number);
    return sent;
  }
}
