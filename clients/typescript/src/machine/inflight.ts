/**
 * The runs in flight: every run that is in user code, or between attempts, or whose outcome is not acknowledged.
 *
 * Owns the life of a run: the checks before it starts, stopping, retries, its report until that is acknowledged. Knows
 * only the numbers of streams. Called by the machine only.
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
import {
  newRun,
  outcomeOf,
  pauseAfter,
  reportInstead,
  reportOf,
  type InFlightRun,
  type Progress,
} from "./inflightrun.js";
import { millis, stamp } from "./time.js";
import {
  itemId,
  keyId,
  keyOf,
  keyText,
  refOf,
  StopReason,
  type Ending,
  type Key,
  type KeyId,
  type Now,
} from "./types.js";

const PROGRESS_EVERY = 250;

/** A Trigger, and what the machine knows about it. */
export interface Offer {
  readonly trigger: Trigger;
  readonly ref: RunRef;
  readonly stream: number;
  readonly instanceId: string;
  readonly props: Readonly<Record<string, string>>;
  /** How long it is kept before it begins. */
  readonly startsIn: number;
  /** The machine's reason not to start it, or empty. */
  readonly objection: string;
}

export class InFlight {
  readonly #slots: number;
  readonly #emit: Emit;
  // In the order of their Triggers, then of their ends. The following are subsets of it: bursts of thousands of runs
  // are common, so no event iterates over all of them.
  readonly #runs = new Map<KeyId, InFlightRun>();
  readonly #active = new Map<KeyId, InFlightRun>();
  readonly #ofItem = new Map<string, InFlightRun[]>();
  #unstopped = 0;
  // A lower bound of the next time at which a timer of a run is due.
  #soonest = Infinity;
  readonly #toTell = new Set<InFlightRun>();
  readonly #progressing = new Set<InFlightRun>();
  // Reports that were not sent on the current stream, and how many were.
  #unsent = new Map<KeyId, InFlightRun>();
  #underWay = 0;
  #stream = 0;
  readonly #highest = new Map<string, bigint>();

  constructor(slots: number, emit: Emit) {
    this.#slots = slots;
    this.#emit = emit;
  }

  // ---- what is in flight

  refs(): RunRef[] {
    return [...this.#runs.values()].map((run) => refOf(run.key));
  }

  working(): string[] {
    return [...this.#active.values()].map((run) => keyText(run.key));
  }

  empty(): boolean {
    return this.#runs.size === 0;
  }

  hasUnstopped(): boolean {
    return this.#unstopped > 0;
  }

  #add(run: InFlightRun): void {
    this.#runs.set(keyId(run.key), run);
    this.#active.set(keyId(run.key), run);
    this.#ofItem.set(itemId(run.key), [...this.#activeOf(run.key), run]);
    this.#unstopped += 1;
  }

  /** The run is over here, except for its report. */
  #settle(run: InFlightRun): void {
    this.#runs.delete(keyId(run.key));
    if (!this.#active.delete(keyId(run.key))) return;
    const others = this.#activeOf(run.key).filter((other) => other !== run);
    if (others.length > 0) this.#ofItem.set(itemId(run.key), others);
    else this.#ofItem.delete(itemId(run.key));
    if (run.stop === undefined) this.#unstopped -= 1;
    this.#toTell.delete(run);
    this.#progressing.delete(run);
  }

  #activeOf(key: Key): InFlightRun[] {
    return this.#ofItem.get(itemId(key)) ?? [];
  }

  // ---- a run begins

  take(now: Now, offer: Offer): void {
    const key = keyOf(offer.ref);
    if (this.#runs.has(keyId(key))) return;
    const run = newRun(key, offer.trigger, offer.stream, offer.instanceId, offer.props);
    const seen = this.#highest.get(itemId(key));
    let objection = offer.objection;
    if (seen !== undefined && key.token <= seen) {
      // The run is over here, or older than the item's highest token. The coordinator must know.
      objection = `a run ${String(seen)} of the item was seen already`;
    } else {
      this.#highest.set(itemId(key), key.token);
      this.#supersede(now, key);
      objection ||= this.#objection(key);
    }
    this.#add(run);
    if (objection !== "") {
      this.#note("warn", `did not start ${keyText(key)}: ${objection}`);
      this.#report(now, run, RunOutcome.NOT_STARTED, objection);
    } else if (offer.startsIn > 0) {
      run.phase = "waiting";
      this.#later(run, now.boot + offer.startsIn);
    } else {
      this.#start(run);
    }
  }

  /** Forgets the runs that have not begun: their stream is lost. The next one sends them again, under the same tokens. */
  dropUnstarted(): void {
    for (const run of [...this.#active.values()]) {
      if (run.phase !== "waiting") continue;
      this.#settle(run);
      const item = itemId(run.key);
      if (this.#highest.get(item) === run.key.token) this.#highest.set(item, run.key.token - 1n);
    }
  }

  /** A higher token means that reports of older runs of the item are no longer accepted. */
  #supersede(now: Now, key: Key): void {
    for (const older of this.#activeOf(key)) this.#stop(now, older, StopReason.FENCED);
  }

  #objection(key: Key): string {
    if (this.#activeOf(key).length > 0) return "an older run of the item is still in user code";
    return this.#active.size >= this.#slots ? "no slot is free" : "";
  }

  #later(run: InFlightRun, at: number): void {
    run.nextAt = at;
    this.#soonest = Math.min(this.#soonest, at);
  }

  #start(run: InFlightRun): void {
    run.phase = "in user code";
    const { key, trigger, instanceId, attempt, offset, deadline, props } = run;
    const stream = run.startedAt === undefined ? run.stream : 0;
    this.#emit({ type: "startRun", key, trigger, instanceId, attempt, offset, deadline, props, stream });
  }

  began(now: Now, key: Key): void {
    const run = this.#active.get(keyId(key));
    if (run === undefined) return;
    run.toldFrom = now.wall;
    this.#toTell.add(run);
    if (run.startedAt !== undefined) return;
    run.startedAt = now.wall;
    const timeout = millis(run.trigger.timeout);
    if (timeout > 0) {
      run.timeoutAt = now.boot + timeout;
      this.#soonest = Math.min(this.#soonest, run.timeoutAt);
      run.deadline = now.wall + timeout;
    }
  }

  /** The RunStarted frames to send. For a run that has ended meanwhile, its report implies the start. */
  *dueStarted(): Generator<RunStarted> {
    for (const run of this.#toTell) {
      if (run.toldFrom === undefined || run.phase !== "in user code") continue;
      yield create(RunStartedSchema, { run: refOf(run.key), startedAt: stamp(run.toldFrom), attempt: run.attempt });
    }
    this.#toTell.clear();
  }

  // ---- a run is stopped

  cancel(now: Now, key: Key, reason: StopReason): void {
    const run = this.#active.get(keyId(key));
    if (run !== undefined) this.#stop(now, run, reason);
  }

  stopAll(now: Now, reason: StopReason): void {
    for (const run of [...this.#active.values()]) this.#stop(now, run, reason);
  }

  /** The coordinator marked the old identity dead: drops old reports; old runs stop and are not reported. */
  disown(now: Now): void {
    for (const run of [...this.#runs.values()]) {
      if (run.phase === "in user code") this.#stop(now, run, StopReason.DEAD);
      else this.#settle(run);
    }
    this.#unsent.clear();
    this.#underWay = 0;
  }

  #stop(now: Now, run: InFlightRun, reason: StopReason): void {
    const told = run.stop !== undefined;
    // A reason that revokes the run's right overrides an earlier one; otherwise the first reason stays.
    const outweighs = reason === StopReason.FENCED || reason === StopReason.DEAD;
    if (!told) this.#unstopped -= 1;
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
    const run = this.#active.get(keyId(key));
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
    this.#later(run, now.boot + pauseAfter(run.trigger, run.attempt));
    const summary = (ending.error ?? "").split("\n", 1)[0] ?? "";
    this.#note("warn", `attempt ${run.attempt} of ${keyText(key)} failed: ${summary}`);
  }

  #close(now: Now, run: InFlightRun, ending: Ending): void {
    if (run.stop === StopReason.DEAD) {
      this.#settle(run);
      return;
    }
    const outcome = outcomeOf(run, ending);
    const error = ending.error ?? "";
    if (outcome === RunOutcome.FAILED) this.#note("error", `${keyText(run.key)} failed: ${error}`);
    const why = error === "" && run.stop !== undefined ? `cancelled: ${run.stop}` : error;
    this.#report(now, run, outcome, why, ending.output);
  }

  #report(now: Now, run: InFlightRun, outcome: RunOutcome, error: string, output = ""): void {
    run.report = reportOf(run, now.wall, outcome, error, output);
    run.phase = "reported";
    // Reports go out in the order in which runs ended.
    this.#settle(run);
    this.#runs.set(keyId(run.key), run);
    this.#unsent.set(keyId(run.key), run);
  }

  // ---- reports

  /** How many reports are under way on the current stream. */
  get underWay(): number {
    return this.#underWay;
  }

  /** The reports to send on this stream now; at most `credits` of them may be unacknowledged. */
  *dueReports(stream: number, credits: number): Generator<RunCompleted> {
    if (stream !== this.#stream) {
      this.#stream = stream;
      this.#underWay = 0;
      this.#unsent = new Map([...this.#runs].filter(([, run]) => run.report !== undefined));
    }
    for (const [id, run] of this.#unsent) {
      if (this.#underWay >= credits) return;
      this.#unsent.delete(id);
      this.#underWay += 1;
      if (run.report !== undefined) yield run.report;
    }
  }

  acknowledged(ack: ReportAck): void {
    if (ack.run === undefined) return;
    const key = keyOf(ack.run);
    const run = this.#runs.get(keyId(key));
    if (run?.report === undefined) return;
    this.#runs.delete(keyId(key));
    if (!this.#unsent.delete(keyId(key))) this.#underWay -= 1;
    if (ack.result === ReportResult.ACCEPTED) return;
    const why = `${ack.code}: ${ack.message}`;
    if (ack.result !== ReportResult.INVALID || run.replaces) {
      this.#note("warn", `the report of ${keyText(key)} was not accepted: ${why}`);
      return;
    }
    this.#note("error", `the report of ${keyText(key)} was refused, it is reported as failed: ${why}`);
    run.report = reportInstead(run, run.report, why);
    run.replaces = true;
    this.#runs.set(keyId(key), run);
    this.#unsent.set(keyId(key), run);
  }

  // ---- progress

  progressed(said: Progress & { readonly key: Key }): void {
    const run = this.#active.get(keyId(said.key));
    if (run?.phase !== "in user code") return;
    const { percent, message, offset } = said;
    run.progress = run.progressed = { percent, message, offset };
    this.#progressing.add(run);
  }

  /** Another coordinator may not know the offsets of runs. */
  sayOffsetsAgain(): void {
    for (const run of this.#active.values()) {
      if (run.phase !== "in user code" || run.progressed?.offset === undefined) continue;
      run.progress = run.progressed;
      this.#progressing.add(run);
    }
  }

  /** Only the last progress of a run is kept, and it goes out four times a second at most. */
  *dueProgress(now: Now): Generator<RunProgress> {
    for (const run of this.#progressing) {
      if (run.progress === undefined || now.boot < run.progressAt) continue;
      const { percent, message, offset } = run.progress;
      run.progress = undefined;
      this.#progressing.delete(run);
      run.progressAt = now.boot + PROGRESS_EVERY;
      const known = offset === undefined ? {} : { offset };
      yield create(RunProgressSchema, { run: refOf(run.key), percent, message, ...known });
    }
  }

  // ---- time

  *timers(live: boolean): Generator<number> {
    yield this.#soonest;
    if (live) for (const run of this.#progressing) yield run.progressAt;
  }

  expire(now: Now, mayStart: boolean): void {
    if (now.boot < this.#soonest) return;
    for (const run of [...this.#active.values()]) {
      if (run.stop === undefined && now.boot >= run.timeoutAt) {
        this.#stop(now, run, StopReason.TIMED_OUT);
      } else if ((run.phase === "waiting" || run.phase === "between") && now.boot >= run.nextAt && mayStart) {
        if (run.phase === "between") run.attempt += 1;
        this.#start(run);
      }
    }
    this.#soonest = Infinity;
    for (const run of this.#active.values()) {
      if (run.phase === "waiting" || run.phase === "between") this.#later(run, run.nextAt);
      if (run.stop === undefined) this.#soonest = Math.min(this.#soonest, run.timeoutAt);
    }
  }

  #note(level: Level, text: string): void {
    this.#emit({ type: "note", level, text });
  }
}
