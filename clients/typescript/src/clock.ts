/** The only file that reads a clock, and the memory that the thread of the stream and the one of user code share. */

import { uptime } from "node:os";
import { StopReason, type Now } from "./machine/types.js";

/** Shorter sleeps are ignored; the drift of the lease has room for them. */
const SHORTEST_SLEEP = 50;
/** How long to trust the clock that sleeps without a comparison with the one that does not. */
const LOOK_EVERY = 250;

const LEASE = 0;
const SLEPT = 1;
const STREAM = 2;
const LEAVING = 3;
const LINES = 4;
const TURNS = 5;
const WORDS = 6;
/**
 * How long user code's thread waits for the other one, if that gets no processor, before it assumes that a lease has
 * expired.
 */
const PATIENCE = 500;
/** One turn may have been in progress when the process was frozen: only the next has read the socket since. */
const ENOUGH_TURNS = 2n;
/** The value without a lease. */
const NEVER = -(2n ** 62n);

const REASONS = Object.values(StopReason);

/** The data that is posted to the thread so that it reads the same memory and the same clock. */
export interface SharedParts {
  readonly buffer: SharedArrayBuffer;
  /** How far the clock that goes on while the machine sleeps was ahead of the other, at first. */
  readonly ahead: number;
}

/** The available clocks, in milliseconds. */
export interface Clocks {
  /** Stands still while the machine sleeps; the same in all threads. */
  readonly mono: () => number;
  /** Goes on while the machine sleeps; has coarse steps, and is slow to read. */
  readonly uptime: () => number;
  /** May be set. */
  readonly wall: () => number;
}

const OF_MACHINE: Clocks = {
  mono: () => Number(process.hrtime.bigint()) / 1e6,
  uptime: () => uptime() * 1e3,
  wall: () => Date.now(),
};

/** A clock that goes on while the machine sleeps, so that a lease ends then too. Both threads agree on it. */
export class Shared {
  readonly parts: SharedParts;
  readonly #clocks: Clocks;
  readonly #words: BigInt64Array;
  readonly #flags: Int32Array;
  #lookedAt = -Infinity;
  #wallAhead = 0;
  #foundOver: bigint | undefined;

  private constructor(parts: SharedParts, clocks: Clocks) {
    this.parts = parts;
    this.#clocks = clocks;
    this.#words = new BigInt64Array(parts.buffer, 0, WORDS);
    this.#flags = new Int32Array(parts.buffer, WORDS * 8);
  }

  static create(slots: number, clocks = OF_MACHINE): Shared {
    const buffer = new SharedArrayBuffer(WORDS * 8 + slots * 4);
    // The quickest of three readings: a process that is held up between two clocks sees them further apart.
    const looks = [0, 1, 2].map(() => clocks.uptime() - clocks.mono());
    const shared = new Shared({ buffer, ahead: Math.max(...looks) }, clocks);
    Atomics.store(shared.#words, LEASE, NEVER);
    return shared;
  }

  static of(parts: SharedParts, clocks = OF_MACHINE): Shared {
    return new Shared(parts, clocks);
  }

  // ---- the clock

  now(): Now {
    return { boot: this.boot(), wall: this.#clocks.wall() };
  }

  boot(): number {
    const mono = this.#clocks.mono();
    this.#lookAfterSleep(mono);
    return mono + Number(Atomics.load(this.#words, SLEPT));
  }

  /** Node's only clock that goes on while the machine sleeps has coarse steps: adds how far it is ahead. */
  #lookAfterSleep(mono: number): void {
    const wallAhead = this.#clocks.wall() - mono;
    if (mono < this.#lookedAt + LOOK_EVERY && Math.abs(wallAhead - this.#wallAhead) < SHORTEST_SLEEP) return;
    this.#lookedAt = mono;
    this.#wallAhead = wallAhead;
    const known = Atomics.load(this.#words, SLEPT);
    const slept = this.#clocks.uptime() - this.#clocks.mono() - this.parts.ahead - Number(known);
    if (slept < SHORTEST_SLEEP) return;
    // The other thread may have found the same sleep just now.
    Atomics.compareExchange(this.#words, SLEPT, known, known + BigInt(Math.round(slept)));
  }

  // ---- the lease, the stream, leaving: set by the thread of the stream

  set leaseStopsAt(boot: number) {
    Atomics.store(this.#words, LEASE, Number.isFinite(boot) ? BigInt(Math.floor(boot * 1e3)) : NEVER);
  }

  /** Milliseconds until user code must stop; not above zero: the lease has ended. */
  leaseLeft(): number {
    return Number(Atomics.load(this.#words, LEASE)) / 1e3 - this.boot();
  }

  /**
   * Whether user code must stop. When a frozen process resumes, an acknowledgement that waited in the socket still
   * counts: so the thread that reads it gets a moment, in which no user code goes on.
   */
  leaseOver(): boolean {
    if (this.leaseLeft() > 0) return false;
    // A lease that was found expired is not waited for again.
    if (Atomics.load(this.#words, LEASE) === this.#foundOver) return true;
    const first = Atomics.load(this.#words, TURNS);
    const until = this.#clocks.mono() + PATIENCE;
    while (this.leaseLeft() <= 0) {
      const turns = Atomics.load(this.#words, TURNS);
      const wait = until - this.#clocks.mono();
      if (turns >= first + ENOUGH_TURNS || wait <= 0) {
        this.#foundOver = Atomics.load(this.#words, LEASE);
        return this.leaseLeft() <= 0;
      }
      Atomics.wait(this.#words, TURNS, turns, wait);
    }
    return false;
  }

  /** The thread of the stream has handled everything. */
  turned(): void {
    Atomics.add(this.#words, TURNS, 1n);
    Atomics.notify(this.#words, TURNS);
  }

  /** The attached stream; 0: none. */
  get liveStream(): number {
    return Number(Atomics.load(this.#words, STREAM));
  }

  set liveStream(stream: number) {
    Atomics.store(this.#words, STREAM, BigInt(stream));
  }

  get leaving(): boolean {
    return Atomics.load(this.#words, LEAVING) !== 0n;
  }

  setLeaving(): void {
    Atomics.store(this.#words, LEAVING, 1n);
  }

  // ---- why the run in a place must stop: a handler that never waits can still check

  setStop(place: number, reason: StopReason | undefined): void {
    Atomics.store(this.#flags, place, reason === undefined ? 0 : REASONS.indexOf(reason) + 1);
  }

  stop(place: number): StopReason | undefined {
    return REASONS[Atomics.load(this.#flags, place) - 1];
  }

  // ---- log lines that user code's thread has not received yet

  lines(change: 1 | -1): number {
    return Number(Atomics.add(this.#words, LINES, BigInt(change))) + change;
  }
}
