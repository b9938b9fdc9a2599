/**
 * The callbacks of fires: each is called once, and its answer is kept, since the coordinator asks again after a lost
 * stream.
 */

import { create } from "@bufbuild/protobuf";
import { CallbackDoneSchema, type Callback, type CallbackDone } from "../proto/rosterd/v1/worker_pb.js";
import { shorten } from "../text.js";
import type { Emit } from "./events.js";
import { MAX_ERROR } from "./inflightrun.js";
import { millis } from "./time.js";

const MAX_REMEMBERED = 128;

export class Callbacks {
  readonly #slots: number;
  readonly #emit: Emit;
  // Whether there was a stream to send it on.
  readonly #send: (done: CallbackDone) => boolean;
  // The deadline of each.
  readonly #open = new Map<string, number>();
  readonly #done = new Map<string, CallbackDone>();
  #unsent: CallbackDone[] = [];

  constructor(slots: number, emit: Emit, send: (done: CallbackDone) => boolean) {
    this.#slots = slots;
    this.#emit = emit;
    this.#send = send;
  }

  get any(): boolean {
    return this.#open.size > 0;
  }

  deadline(): number {
    return Math.min(...this.#open.values());
  }

  asked(boot: number, callback: Callback): void {
    const id = callback.callbackId;
    if (this.#open.has(id)) return;
    const known = this.#done.get(id);
    if (known !== undefined) {
      this.#send(known);
    } else if (this.#open.size >= this.#slots) {
      this.#send(done(id, "too many callbacks at a time", false));
    } else {
      const timeout = millis(callback.timeout);
      this.#open.set(id, timeout > 0 ? boot + timeout : Infinity);
      this.#emit({ type: "startCallback", callback });
    }
  }

  ended(id: string, error: string, timedOut = false): void {
    if (!this.#open.delete(id)) return;
    const answer = done(id, error, timedOut);
    this.#done.set(id, answer);
    if (this.#done.size > MAX_REMEMBERED) this.#forgetOldest();
    if (error !== "") this.#emit({ type: "note", level: "error", text: `callback ${id} failed: ${error}` });
    // If it is lost with the stream, the coordinator asks again, and the worker answers from memory.
    if (!this.#send(answer)) this.#unsent.push(answer);
  }

  /** After a Welcome: sends the answers that had no stream. */
  sayUnsent(): void {
    const unsent = this.#unsent;
    this.#unsent = [];
    for (const answer of unsent) this.#send(answer);
  }

  #forgetOldest(): void {
    for (const id of this.#done.keys()) {
      this.#done.delete(id);
      return;
    }
  }

  expire(boot: number): void {
    for (const [id, by] of [...this.#open]) if (boot >= by) this.ended(id, "timed out", true);
  }

  abandon(): void {
    for (const id of [...this.#open.keys()]) this.ended(id, "the worker left");
  }
}

function done(callbackId: string, error: string, timedOut: boolean): CallbackDone {
  return create(CallbackDoneSchema, { callbackId, error: shorten(error, MAX_ERROR), timedOut });
}
