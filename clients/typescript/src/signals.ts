/** SIGTERM and SIGINT: leave in order; a second one: exit immediately. */

import { constants } from "node:os";
import type { Logger } from "./log.js";

/** Supervisors signal a process and its group: signals this soon after the first one repeat it. In milliseconds. */
const ONE_REQUEST = 1_000;
const WANTED = ["SIGTERM", "SIGINT"] as const;

export class Signals {
  readonly #leave: () => void;
  readonly #now: () => number;
  readonly #log: Logger;
  readonly #exit: (code: number) => void;
  readonly #handler = (signal: NodeJS.Signals) => {
    this.#signalled(signal);
  };
  #first: number | undefined;

  constructor(leave: () => void, now: () => number, log: Logger, exit: (code: number) => void) {
    this.#leave = leave;
    this.#now = now;
    this.#log = log;
    this.#exit = exit;
  }

  get came(): boolean {
    return this.#first !== undefined;
  }

  listen(): void {
    for (const signal of WANTED) process.on(signal, this.#handler);
  }

  ignore(): void {
    for (const signal of WANTED) process.off(signal, this.#handler);
  }

  #signalled(signal: NodeJS.Signals): void {
    const now = this.#now();
    if (this.#first === undefined) {
      this.#first = now;
      this.#leave();
    } else if (now >= this.#first + ONE_REQUEST) {
      this.#log.warn("second signal received: exiting immediately; runs in flight are recorded as crashed");
      this.#exit(128 + constants.signals[signal]);
    }
  }
}
