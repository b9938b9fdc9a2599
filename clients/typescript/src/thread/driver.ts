/**
 * Drives the machine, in a thread of its own, so that heartbeats go on whatever user code does.
 *
 * Feeds events to the machine one at a time, performs its effects, and wakes it when a timer is due. The only place
 * where machine, stream and the thread of user code meet.
 */

import type { Shared } from "../clock.js";
import { describe } from "../describe.js";
import type { Effect, Event, StartRun } from "../machine/events.js";
import { Machine } from "../machine/machine.js";
import { keyId, type Defeat, type KeyId, type StopReason } from "../machine/types.js";
import type { Line, News, Orders } from "./link.js";
import { Stream } from "./stream.js";

/** The loop's clock stops while the machine sleeps, the lease's does not: check at least this often. */
const LONGEST_WAIT = 250;
/** A timer that is this late was not only delayed by a busy machine: the process was frozen. */
const STOOD_STILL = 100;
/** After this many turns of the loop in a row without an event, what waited in the socket has been read and decoded. */
const QUIET_TURNS = 8;
/** The most turns to wait for a coordinator that keeps sending. */
const MOST_TURNS = 256;
/** Lines that the other thread has not received; more are dropped, and counted. */
const MAX_LINES = 1024;

export class Driver {
  readonly #orders: Orders;
  readonly #shared: Shared;
  readonly #machine: Machine;
  readonly #post: (news: News) => void;
  readonly #streams = new Map<number, Stream>();
  // The place of the stop of each run in user code, and the free places.
  readonly #places = new Map<KeyId, number>();
  readonly #free: number[];
  #closing: Promise<void> = Promise.resolve();
  #waiting: Event[] = [];
  #flushing = false;
  #timer: NodeJS.Timeout | undefined;
  // When the timer is due, on the boot clock.
  #due = Infinity;
  #leftOut = 0;
  #over = false;

  constructor(orders: Orders, shared: Shared, post: (news: News) => void) {
    this.#orders = orders;
    this.#shared = shared;
    this.#machine = new Machine(orders.settings, orders.registrations, Math.random);
    this.#post = post;
    this.#free = Array.from({ length: orders.settings.slots }, (_, place) => place);
  }

  /**
   * Takes an event. Events of one turn of the loop are fed at its end, acknowledgements first: several frames may have
   * arrived while the process was frozen, and a proof of the lease must not wait behind a frame that depends on it.
   * Reading them may take more than one turn, and on a busy machine any time: so the driver counts turns of the loop,
   * not milliseconds.
   */
  take(event: Event): void {
    this.#waiting.push(event);
    if (this.#flushing) return;
    this.#flushing = true;
    setImmediate(() => {
      if (this.#shared.boot() > this.#due + STOOD_STILL) this.#flushOnceQuiet();
      else this.#flush();
    });
  }

  #flushOnceQuiet(): void {
    let [quiet, turns, known] = [0, 0, this.#waiting.length];
    const turn = () => {
      quiet = this.#waiting.length === known ? quiet + 1 : 0;
      known = this.#waiting.length;
      turns += 1;
      if (quiet < QUIET_TURNS && turns < MOST_TURNS) setImmediate(turn);
      else this.#flush();
    };
    setImmediate(turn);
  }

  get ready(): boolean {
    return this.#machine.liveStream !== 0 && !this.#machine.isLeaving && this.#shared.leaseLeft() > 0;
  }

  get over(): boolean {
    return this.#over;
  }

  #flush(): void {
    this.#flushing = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    const proofs = waiting.filter(provesLease);
    for (const event of proofs) this.#feed(event);
    for (const event of waiting) if (!provesLease(event)) this.#feed(event);
    this.#arm();
    this.#shared.turned();
  }

  #feed(event: Event): void {
    if (this.#over) return;
    try {
      if (event.type === "ended") this.#freePlace(keyId(event.key));
      const effects = this.#machine.handle(this.#shared.now(), event);
      // Before any effect: user code may be called by the next line.
      this.#shared.leaseStopsAt = this.#machine.leaseStopsAt;
      this.#shared.liveStream = this.#machine.liveStream;
      for (const effect of effects) this.#perform(effect);
    } catch (error) {
      // A defect of this package: without heartbeats every run must stop.
      this.#end({ kind: "internal", detail: describe(error) });
    }
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#over) return;
    const boot = this.#shared.boot();
    const wait = Math.min(Math.max(0, this.#machine.deadline() - boot), LONGEST_WAIT);
    this.#due = boot + wait;
    // Timers run before sockets in a turn of the loop; the flush handles what the socket holds first.
    this.#timer = setTimeout(() => {
      this.take({ type: "tick" });
    }, Math.ceil(wait));
  }

  #perform(effect: Effect): void {
    switch (effect.type) {
      case "open":
        return this.#open(effect.stream, effect.address);
      case "close":
        return this.#close(effect.stream);
      case "send":
        if (this.#streams.get(effect.stream)?.send(effect.frame) === false) {
          this.take({ type: "lost", stream: effect.stream, code: "", detail: "the coordinator does not read" });
        }
        return;
      case "startRun":
        return this.#start(effect);
      case "stopRun":
        return this.#stop(keyId(effect.key), effect);
      case "startCallback":
        return this.#post({ type: "callback", callback: effect.callback });
      case "leaving":
        return this.#shared.setLeaving();
      case "attached":
      case "detached":
      case "renewed":
        if (this.#orders.metrics) this.line(effect);
        return;
      case "note":
        return this.line(effect);
      case "finish":
        return this.#end(effect.defeat);
    }
  }

  #start(effect: StartRun): void {
    const place = this.#free.pop();
    if (place === undefined) throw new Error("more runs in user code than slots");
    this.#shared.setStop(place, undefined);
    this.#places.set(keyId(effect.key), place);
    this.#post({ ...effect, type: "start", place });
  }

  #stop(id: KeyId, { key, reason }: Extract<Effect, { type: "stopRun" }>): void {
    const place = this.#places.get(id);
    if (place !== undefined) this.#shared.setStop(place, reason satisfies StopReason);
    this.#post({ type: "stop", key, reason });
  }

  #freePlace(id: KeyId): void {
    const place = this.#places.get(id);
    if (place === undefined) return;
    this.#places.delete(id);
    this.#free.push(place);
  }

  #open(number: number, address: string): void {
    const stream = new Stream(number, address, this.#orders.access, (event) => {
      this.take(event);
    });
    this.#streams.set(number, stream);
    void stream.open(this.#closing);
  }

  #close(number: number): void {
    const stream = this.#streams.get(number);
    if (stream === undefined) return;
    this.#streams.delete(number);
    this.#closing = this.#closing.then(() => stream.close());
  }

  #end(defeat: Defeat | undefined): void {
    if (this.#over) return;
    this.#over = true;
    if (defeat?.kind === "internal") this.#shared.leaseStopsAt = -Infinity;
    this.#shared.liveStream = 0;
    clearTimeout(this.#timer);
    for (const number of [...this.#streams.keys()]) this.#close(number);
    void this.#closing.then(() => {
      this.#post({ type: "over", defeat });
    });
  }

  /** A line for the log or for metrics. If the other thread receives none for long, the rest is dropped and counted. */
  line(line: Line): void {
    if (this.#shared.lines(1) > MAX_LINES) {
      this.#shared.lines(-1);
      this.#leftOut += 1;
      return;
    }
    if (this.#leftOut > 0) {
      this.#post({ type: "note", level: "warn", text: `${this.#leftOut} log lines were left out before this one` });
      this.#shared.lines(1);
      this.#leftOut = 0;
    }
    this.#post(line);
  }
}

function provesLease(event: Event): boolean {
  return event.type === "received" && event.frame.frame.case === "heartbeatAck";
}
