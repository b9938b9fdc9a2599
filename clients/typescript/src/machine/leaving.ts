/** The progress of a leave on the current stream, and its deadline. Milliseconds. */

import type { Level } from "./events.js";
import type { Defeat } from "./types.js";

/** How long a coordinator may take for Draining or GoodbyeAck once nothing is in flight. */
const FAREWELL = 3_000;
/** How many runs the answer to a signal names. */
const MAX_RUNS_NAMED = 5;

export class Leaving {
  /** The error that ends the worker. */
  defeat: Defeat | undefined;
  #drainBy: number;
  #askedAt: number | undefined;
  #draining = false;
  #goodbyeAt: number | undefined;
  // Since when nothing is in flight.
  #restAt: number | undefined;

  constructor(drainBy: number, defeat: Defeat | undefined) {
    this.#drainBy = drainBy;
    this.defeat = defeat;
  }

  /** When runs must stop. */
  get drainBy(): number {
    return this.#drainBy;
  }

  get goodbyeAt(): number | undefined {
    return this.#goodbyeAt;
  }

  /** The earliest of several deadlines applies. */
  sooner(drainBy: number): void {
    this.#drainBy = Math.min(this.#drainBy, drainBy);
  }

  /** A new stream begins with the DrainRequest again. */
  newStream(): void {
    this.#askedAt = undefined;
    this.#draining = false;
    this.#goodbyeAt = undefined;
  }

  /** Whether to send the DrainRequest; marks it as sent. */
  ask(boot: number): boolean {
    if (this.#askedAt !== undefined) return false;
    this.#askedAt = boot;
    return true;
  }

  drainingCame(): void {
    this.#draining = true;
  }

  /** If nothing is in flight: whether to send the Goodbye; marks it as sent. */
  sayGoodbye(boot: number): boolean {
    if (!this.#draining || this.#goodbyeAt !== undefined) return false;
    this.#goodbyeAt = boot;
    return true;
  }

  rest(boot: number, atRest: boolean): void {
    this.#restAt = atRest ? (this.#restAt ?? boot) : undefined;
  }

  /** When to leave without a goodbye. */
  limit(leaveTimeout: number): number {
    return Math.min(this.#restAt ?? Infinity, this.#drainBy) + leaveTimeout;
  }

  /** When to try another coordinator. */
  farewellBy(): number {
    if (this.#restAt === undefined) return Infinity;
    if (this.#goodbyeAt !== undefined) return this.#goodbyeAt + FAREWELL;
    if (this.#askedAt === undefined || this.#draining) return Infinity;
    return Math.max(this.#askedAt, this.#restAt) + FAREWELL;
  }
}

/** The answer to a signal: what the worker waits for, and how to end it immediately. */
export function waitsFor(runs: readonly string[], drainTimeoutMs: number): [Level, string] {
  if (runs.length === 0) return ["info", "signal received: leaving; nothing is in flight"];
  const count = runs.length === 1 ? "1 run" : `${runs.length} runs`;
  const names = runs.slice(0, MAX_RUNS_NAMED).join(", ") + (runs.length > MAX_RUNS_NAMED ? ", …" : "");
  return [
    "warn",
    `signal received: leaving once ${count} in flight (${names}) ended, after ${drainTimeoutMs / 1e3} s at the ` +
      "latest; a second signal exits immediately and records them as crashed",
  ];
}
