/**
 * Calls user code in the thread that runs the worker, and reports when it started and ended. Decides nothing: the
 * machine decides which run starts or stops.
 */

import { describe, textOf } from "./describe.js";
import { Cancelled, Fatal } from "./errors.js";
import { attempt, type Fire, type Job } from "./job.js";
import { withIds, type Logger } from "./log.js";
import type { UserEvent } from "./machine/events.js";
import { instant, millis } from "./machine/time.js";
import { keyId, StopReason, type Ending, type Key, type KeyId } from "./machine/types.js";
import { CallbackKind, type Callback } from "./proto/rosterd/v1/worker_pb.js";
import { Run, type RunParts } from "./run.js";
import { withTrace } from "./trace.js";

/** The end of a run in user code, for metrics. */
export interface RunEnd {
  /** How the attempt ended here. The coordinator's record may differ, for example if the run was told to stop. */
  readonly how: "returned" | "raised" | "cancelled";
  readonly durationMs: number;
  readonly error: unknown;
}

/** Hooks for metrics. An exception of a hook is logged, and has no other effect. */
export interface Hooks {
  /** User code of an attempt is about to be called. */
  runStarted?: ((run: Run) => void) | undefined;
  /** User code of an attempt has ended. */
  runEnded?: ((run: Run, end: RunEnd) => void) | undefined;
  /** A Trigger arrived, and the last check did not let user code begin. */
  runNotStarted?: ((run: Run, why: string) => void) | undefined;
  attached?: ((server: string, instanceId: string) => void) | undefined;
  detached?: ((server: string, reason: string) => void) | undefined;
  /** A heartbeat was acknowledged, this long after it was sent. */
  leaseRenewed?: ((roundTripMs: number) => void) | undefined;
}

/** The stream thread's interface for the runner. */
export interface Line {
  /** Milliseconds until the lease ends. */
  readonly leaseLeft: () => number;
  readonly leaseOver: () => boolean;
  readonly liveStream: () => number;
  readonly leaving: () => boolean;
  readonly stop: (place: number) => StopReason | undefined;
  readonly now: () => { readonly boot: number; readonly wall: number };
  readonly post: (event: UserEvent) => void;
}

/** A run to call. */
export interface Call extends Omit<RunParts, "deadline"> {
  readonly deadline: number | undefined;
  /** The place of its stop in the shared memory. */
  readonly place: number;
  /** The stream that must be the current one; 0: any. */
  readonly stream: number;
}

const LONGEST_TIMER = 2 ** 31 - 1;

export class Runner {
  readonly #jobs: ReadonlyMap<string, Job>;
  readonly #line: Line;
  readonly #log: Logger;
  readonly #hooks: Hooks;
  readonly #runs = new Map<KeyId, Run>();
  #watch: NodeJS.Timeout | undefined;

  constructor(jobs: ReadonlyMap<string, Job>, line: Line, log: Logger, hooks: Hooks) {
    this.#jobs = jobs;
    this.#line = line;
    this.#log = log;
    this.#hooks = hooks;
  }

  /** How many runs are in user code. */
  get size(): number {
    return this.#runs.size;
  }

  // ---- called by the thread of the stream

  start(call: Call): void {
    const job = this.#jobs.get(call.key.job);
    const run = this.#runOf(call);
    const objection = job === undefined ? "this worker has no such job" : this.#lastLook(call);
    if (job === undefined || objection !== "") {
      this.#hook("runNotStarted", run, objection);
      this.#line.post({ type: "ended", key: call.key, ending: { kind: "not begun", error: objection } });
      return;
    }
    this.#runs.set(keyId(call.key), run);
    this.#watchLease();
    this.#line.post({ type: "began", key: call.key });
    this.#hook("runStarted", run);
    const begun = this.#line.now().boot;
    withIds(run.ids, () => {
      void withTrace(run.traceContext, () => this.#call(job, run)).then(([ending, error]) => {
        this.#runs.delete(keyId(call.key));
        this.#line.post({ type: "ended", key: call.key, ending });
        this.#hook("runEnded", run, endOf(ending, this.#line.now().boot - begun, error));
      });
    });
  }

  stop(key: Key, reason: StopReason): void {
    this.#runs.get(keyId(key))?.stop(reason);
  }

  stopAll(reason: StopReason): void {
    for (const run of this.#runs.values()) run.stop(reason);
  }

  callback(callback: Callback): void {
    const id = callback.callbackId;
    const options = this.#jobs.get(callback.job)?.options;
    let hook: ((fire: Fire) => unknown) | undefined;
    if (callback.kind === CallbackKind.ALL_STARTED) hook = options?.onAllStarted;
    else if (callback.kind === CallbackKind.ALL_COMPLETED) hook = options?.onAllCompleted;
    const fire: Fire = { job: callback.job, fireTime: new Date(instant(callback.fireTime)) };
    const answer = (error: string) => {
      this.#line.post({ type: "callbackEnded", id, error });
    };
    void Promise.resolve(fire)
      .then(hook)
      .then(
        () => {
          answer("");
        },
        (error: unknown) => {
          answer(describe(error));
        },
      );
  }

  // ---- one attempt

  /** This thread may have been busy since the machine checked: it checks once more right before user code. */
  #lastLook(call: Call): string {
    if (this.#line.leaseOver()) return "the lease had ended before user code began";
    const stop = this.#line.stop(call.place);
    if (stop !== undefined) return `cancelled: ${stop}`;
    if (call.stream !== 0 && call.stream !== this.#line.liveStream()) {
      return "the stream was lost before user code began";
    }
    return "";
  }

  #runOf(call: Call): Run {
    const { wall } = this.#line.now();
    const timeout = millis(call.trigger.timeout);
    const deadline = call.deadline ?? (timeout > 0 ? wall + timeout : undefined);
    return new Run(
      { ...call, deadline },
      {
        leaseOver: this.#line.leaseOver,
        told: () => this.#line.stop(call.place),
        leaving: this.#line.leaving,
        expired: (key) => {
          this.#line.post({ type: "expired", key });
        },
        progress: (key, percent, message, offset) => {
          this.#line.post({ type: "progressed", key, percent, message, offset });
        },
        now: () => this.#line.now().boot,
        log: this.#log,
      },
    );
  }

  async #call(job: Job, run: Run): Promise<[Ending, unknown]> {
    try {
      const output = textOf(await attempt(job, run));
      return [{ kind: "returned", output, ...run.close() }, undefined];
    } catch (error) {
      const kind = error instanceof Cancelled ? "cancelled" : error instanceof Fatal ? "fatal" : "raised";
      const text = kind === "cancelled" ? (error as Cancelled).message : describe(error);
      return [{ kind, error: text, ...run.close() }, error];
    }
  }

  // ---- the lease, by this thread's own clock

  /** Listeners of a signal are notified when the lease ends, even if the other thread is late or has ended. */
  #watchLease(): void {
    if (this.#watch !== undefined) return;
    const wait = Math.min(Math.max(this.#line.leaseLeft(), 1), LONGEST_TIMER);
    this.#watch = setTimeout(() => {
      this.#watch = undefined;
      // Reading the signal checks the lease.
      const waiting = [...this.#runs.values()].filter((run) => !run.cancelled);
      if (waiting.length > 0) this.#watchLease();
    }, wait).unref();
  }

  close(): void {
    clearTimeout(this.#watch);
  }

  #hook<Name extends "runStarted" | "runEnded" | "runNotStarted">(
    name: Name,
    ...given: Parameters<NonNullable<Hooks[Name]>>
  ): void {
    try {
      (this.#hooks[name] as ((...given: unknown[]) => void) | undefined)?.(...given);
    } catch (error) {
      this.#log.error(`the hook ${name} failed: ${describe(error)}`);
    }
  }
}

function endOf(ending: Ending, durationMs: number, error: unknown): RunEnd {
  const how = ending.kind === "returned" || ending.kind === "cancelled" ? ending.kind : "raised";
  return { how, durationMs, error };
}
