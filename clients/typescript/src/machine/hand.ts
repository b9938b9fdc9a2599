/**
 * The runs in flight: every run that is in user code, or between attempts, or whose outcome is not acknowledged.
 *
 * Owns the life of a run: the checks before it starts, stopping, retries, its report until that is acknowledged. Knows
 * nothing of streams but the number of the one that something was sent on. Called by the machine only.
 */

import { create } from "@bufbuild/protobuf";
import { RunOutcome, type RunRef } from "../proto/rosterd/v1/types_pb.js";
import {
  ReportResult,
  RunProgressSchema,
  RunStartedSchema,
  type ReportAck,
  type RunCompleted,
  type RunProgress,
  type RunStarted,
  type Trigger,
} from "../proto/rosterd/v1/worker_pb.js";
import type { Emit, Level } from "./events.js";
import { held, outcomeOf, pauseAfter, reportInstead, reportOf, working, type Held } from "./held.js";
import { millis, stamp } from "./time.js";
import {
  itemId,
  keyId,
  keyOf,
  keyText,
  refOf,
  sameItem,
  StopReason,
  type Ending,
  type Key,
  type KeyId,
  type Now,
} from "./words.js";

const PROGRESS_EVERY = 250;

/** A Trigger that is to be taken, with what the machine knows of it. */
export interface Offer {
  readonly trigger: Trigger;
  readonly ref: RunRef;
  readonly stream: number;
  readonly instanceId: string;
  readonly props: Readonly<Record<string, string>>;
  /** How long it is kept before it begins. */
  readonly startsIn: number;
  /** What the machine has against starting it, or empty. */
  readonly objection: string;
}

export class Hand {
  readonly #slots: number;
  readonly #emit: Emit;
  readonly #held = new Map<KeyId, Held>();
  readonly #highest = new Map<string, bigint>();

  constructor(slots: number, emit: Emit) {
    this.#slots = slots;
    this.#emit = emit;
  }

  // ---- what is in flight

  refs(): RunRef[] {
    return [...this.#held.values()].map((run) => refOf(run.key));
  }

  working(): string[] {
    return this.#working().map((run) => keyText(run.key));
  }

  empty(): boolean {
    return this.#held.size === 0;
  }

  /** Nothing is left but reports. */
  atRest(): boolean {
    return this.#working().length === 0;
  }

  hasUnstopped(): boolean {
    return this.#working().some((run) => run.stop === undefined);
  }

  #working(): Held[] {
    return [...this.#held.values()].filter(working);
  }

  // ---- a run begins

  take(now: Now, offer: Offer): void {
    const key = keyOf(offer.ref);
    if (this.#held.has(keyId(key))) return;
    const run = held(key, offer.trigger, offer.stream, offer.instanceId, offer.props);
    const seen = this.#highest.get(itemId(key));
    let objection = offer.objection;
    if (seen !== undefined && key.token <= seen) {
      // It is over here, or older than what the item has seen. Who asks has to know.
      objection = `a run ${String(seen)} of the item was seen already`;
    } else {
      this.#highest.set(itemId(key), key.token);
      this.#supersede(now, key);
      objection ||= this.#objection(key);
    }
    this.#held.set(keyId(key), run);
    if (objection !== "") {
      this.#note("warn", `did not start ${keyText(key)}: ${objection}`);
      this.#report(now, run, RunOutcome.NOT_STARTED, objection);
    } else if (offer.startsIn > 0) {
      run.phase = "waiting";
      run.nextAt = now.boot + offer.startsIn;
    } else {
      this.#start(run);
    }
  }

  /** The stream is lost: what has not begun is sent again on the next one, so it may come again. */
  letGo(): void {
    for (const run of this.#working()) {
      if (run.phase !== "waiting") continue;
      this.#held.delete(keyId(run.key));
      const item = itemId(run.key);
      if (this.#highest.get(item) === run.key.token) this.#highest.set(item, run.key.token - 1n);
    }
  }

  /** A higher token says that older runs of the item are not believed any more. */
  #supersede(now: Now, key: Key): void {
    for (const older of this.#working()) if (sameItem(older.key, key)) this.#stop(now, older, StopReason.FENCED);
  }

  #objection(key: Key): string {
    const busy = this.#working();
    if (busy.some((run) => sameItem(run.key, key))) return "an older run of the item is still in user code";
    return busy.length >= this.#slots ? "no slot is free" : "";
  }

  #start(run: Held): void {
    run.phase = "in user code";
    const { key, trigger, instanceId, attempt, offset, deadline, props } = run;
    const stream = run.startedAt === undefined ? run.stream : 0;
    this.#emit({ type: "startRun", key, trigger, instanceId, attempt, offset, deadline, props, stream });
  }

  began(now: Now, key: Key): void {
    const run = this.#held.get(keyId(key));
    if (run === undefined) return;
    run.toldFrom = now.wall;
    if (run.startedAt !== undefined) return;
    run.startedAt = now.wall;
    const timeout = millis(run.trigger.timeout);
    if (timeout > 0) {
      run.timeoutAt = now.boot + timeout;
      run.deadline = now.wall + timeout;
    }
  }

  /** What is to be said of runs that have begun. Of one that has ended meanwhile its report says it. */
  *dueStarted(): Generator<RunStarted> {
    for (const run of this.#held.values()) {
      if (run.toldFrom === undefined || run.phase !== "in user code") continue;
      yield create(RunStartedSchema, { run: refOf(run.key), startedAt: stamp(run.toldFrom), attempt: run.attempt });
      run.toldFrom = undefined;
    }
  }

  // ---- a run is stopped

  cancel(now: Now, key: Key, reason: StopReason): void {
    const run = this.#held.get(keyId(key));
    if (run !== undefined && working(run)) this.#stop(now, run, reason);
  }

  stopAll(now: Now, reason: StopReason): void {
    for (const run of this.#working()) this.#stop(now, run, reason);
  }

  /** The coordinator marked the old identity dead: old reports go, old runs stop and are not reported. */
  disown(now: Now): void {
    for (const run of [...this.#held.values()]) {
      if (run.phase === "in user code") this.#stop(now, run, StopReason.DEAD);
      else this.#held.delete(keyId(run.key));
    }
  }

  #stop(now: Now, run: Held, reason: StopReason): void {
    const told = run.stop !== undefined;
    // What takes the right away outweighs an earlier reason; otherwise the first one counts.
    const outweighs = reason === StopReason.FENCED || reason === StopReason.DEAD;
    if (!told || (outweighs && run.stop !== StopReason.DEAD)) run.stop = reason;
    if (run.phase === "between") {
      this.#close(now, run, { kind: "cancelled", error: `cancelled: ${reason}` });
    } else if (run.phase === "waiting") {
      this.#close(now, run, { kind: "not begun", error: `cancelled: ${reason}` });
    } else if (!told) {
      this.#note("warn", `stopping ${keyText(run.key)}: ${reason}`);
      this.#emit({ type: "stopRun", key: run.key, reason });
    }
  }

  // ---- a run ends

  ended(now: Now, key: Key, ending: Ending): void {
    const run = this.#held.get(keyId(key));
    if (run?.phase !== "in user code") return;
    run.processed += ending.processed ?? 0;
    run.failed += ending.failed ?? 0;
    if (ending.offset !== undefined) run.newOffset = run.offset = ending.offset;
    const again = ending.kind === "raised" && run.stop === undefined && run.attempt < run.trigger.maxAttempts;
    if (!again) {
      this.#close(now, run, ending);
      return;
    }
    run.phase = "between";
    run.nextAt = now.boot + pauseAfter(run.trigger, run.attempt);
    const summary = (ending.error ?? "").split("\n", 1)[0] ?? "";
    this.#note("warn", `attempt ${run.attempt} of ${keyText(key)} failed: ${summary}`);
  }

  #close(now: Now, run: Held, ending: Ending): void {
    if (run.stop === StopReason.DEAD) {
      this.#held.delete(keyId(run.key));
      return;
    }
    const outcome = outcomeOf(run, ending);
    const error = ending.error ?? "";
    if (outcome === RunOutcome.FAILED) this.#note("error", `${keyText(run.key)} failed: ${error}`);
    const why = error === "" && run.stop !== undefined ? `cancelled: ${run.stop}` : error;
    this.#report(now, run, outcome, why, ending.output);
  }

  #report(now: Now, run: Held, outcome: RunOutcome, error: string, output = ""): void {
    run.report = reportOf(run, now.wall, outcome, error, output);
    run.phase = "reported";
    run.progress = undefined;
    // Reports go out in the order in which runs ended.
    this.#held.delete(keyId(run.key));
    this.#held.set(keyId(run.key), run);
  }

  // ---- reports

  /** How many reports are under way on this stream. */
  underWay(stream: number): number {
    return [...this.#held.values()].filter((run) => run.report !== undefined && run.sentOn === stream).length;
  }

  /** The reports to be sent on this stream now; at most `credits` of them may be unacknowledged. */
  *dueReports(stream: number, credits: number): Generator<RunCompleted> {
    let free = credits - this.underWay(stream);
    for (const run of this.#held.values()) {
      if (free <= 0) return;
      if (run.report === undefined || run.sentOn === stream) continue;
      free -= 1;
      run.sentOn = stream;
      yield run.report;
    }
  }

  acknowledged(ack: ReportAck): void {
    if (ack.run === undefined) return;
    const key = keyOf(ack.run);
    const run = this.#held.get(keyId(key));
    if (run?.report === undefined) return;
    this.#held.delete(keyId(key));
    if (ack.result === ReportResult.ACCEPTED) return;
    const why = `${ack.code}: ${ack.message}`;
    if (ack.result !== ReportResult.INVALID || run.replaces) {
      this.#note("warn", `the report of ${keyText(key)} was not accepted: ${why}`);
      return;
    }
    this.#note("error", `the report of ${keyText(key)} was refused, it is reported as failed: ${why}`);
    run.report = reportInstead(run, run.report, why);
    run.sentOn = 0;
    run.replaces = true;
    this.#held.set(keyId(key), run);
  }

  // ---- progress

  progressed(key: Key, percent: number, message: string): void {
    const run = this.#held.get(keyId(key));
    if (run?.phase === "in user code") run.progress = { percent, message };
  }

  /** Only the last progress of a run is kept, and it goes out four times a second at most. */
  *dueProgress(now: Now): Generator<RunProgress> {
    for (const run of this.#held.values()) {
      if (run.progress === undefined || now.boot < run.progressAt) continue;
      const progress = run.progress;
      run.progress = undefined;
      run.progressAt = now.boot + PROGRESS_EVERY;
      yield create(RunProgressSchema, { run: refOf(run.key), ...progress });
    }
  }

  // ---- time

  *timers(live: boolean): Generator<number> {
    for (const run of this.#held.values()) {
      if (run.phase === "waiting" || run.phase === "between") yield run.nextAt;
      if (run.stop === undefined && working(run)) yield run.timeoutAt;
      if (run.progress !== undefined && live) yield run.progressAt;
    }
  }

  expire(now: Now, mayStart: boolean): void {
    for (const run of this.#working()) {
      if (run.stop === undefined && now.boot >= run.timeoutAt) {
        this.#stop(now, run, StopReason.TIMED_OUT);
      } else if ((run.phase === "waiting" || run.phase === "between") && now.boot >= run.nextAt && mayStart) {
        if (run.phase === "between") run.attempt += 1;
        this.#start(run);
      }
    }
  }

  #note(level: Level, text: string): void {
    this.#emit({ type: "note", level, text });
  }
}
