/** The input of a handler: one run of one item. */

import { Cancelled } from "./errors.js";
import type { Logger, RunIds } from "./log.js";
import { instant } from "./machine/time.js";
import { keyText, StopReason, type Key } from "./machine/types.js";
import { RunSource } from "./proto/rosterd/v1/types_pb.js";
import type { Trigger } from "./proto/rosterd/v1/worker_pb.js";
import { shorten } from "./text.js";

const MAX_OFFSET = 64 * 1024;
const MAX_PROGRESS = 1024;
const PROGRESS_EVERY = 250;

/** Why a run exists. */
export type Source = "UNSPECIFIED" | "NORMAL_TRIGGER" | "MISFIRE" | "FAILOVER" | "MANUAL";

/** The worker's interface for a run. */
export interface Outlet {
  /** The lease has ended. */
  readonly leaseOver: () => boolean;
  /** Why the run must stop, from the thread of the stream, also while this one handles no messages. */
  readonly told: () => StopReason | undefined;
  readonly leaving: () => boolean;
  /** The run has found by its own check that its lease had expired. */
  readonly expired: (key: Key) => void;
  readonly progress: (key: Key, percent: number, message: string, offset?: Uint8Array) => void;
  readonly now: () => number;
  readonly log: Logger;
}

/** The parts of a run. */
export interface RunParts {
  readonly key: Key;
  readonly trigger: Trigger;
  readonly instanceId: string;
  readonly attempt: number;
  readonly offset: Uint8Array;
  readonly deadline: number | undefined;
  readonly props: Readonly<Record<string, string>>;
}

/** One run of one item for one fire. */
export class Run {
  readonly job: string;
  /** 0 to `total` - 1. */
  readonly item: number;
  /**
   * The fencing token: only grows per item. Pass it to what the run writes to, so that it can refuse late writes. 63
   * bits.
   */
  readonly token: bigint;
  /** How many items the job has. */
  readonly total: number;
  readonly itemParameter: string;
  readonly jobParameter: string;
  /** The job's properties by name, as they were when the run started. */
  readonly props: Readonly<Record<string, string>>;
  /** The scheduled time (for MISFIRE the latest skipped one, for FAILOVER that of the crashed run). */
  readonly fireTime: Date;
  readonly source: Source;
  /** From 1. */
  readonly attempt: number;
  /** What the last run, or an earlier attempt of this one, set with `setOffset`; empty: none. */
  readonly offset: Buffer;
  /** When the run will be stopped as timed out; undefined: never. */
  readonly deadline: Date | undefined;
  /** The worker's id under its jobs. */
  readonly instanceId: string;
  /** Elastic-Job's id of the task, `job@-@item@-@READY@-@instanceId`. The same for each run of the item here. */
  readonly taskId: string;
  /**
   * The trace that the run belongs to, as W3C Trace Context writes it: `traceparent`, and `tracestate` if there is one. All
   * runs of a fire share it. The handler is called within it if the program has OpenTelemetry's API.
   */
  readonly traceContext: Readonly<Record<string, string>>;
  /** dataflow: continue until there is nothing left to fetch. */
  readonly streaming: boolean;
  /**
   * Aborted once the run must stop, with {@link Cancelled} as its reason. Reading `aborted` checks the lease itself: a
   * process that was frozen past its lease may resume in a handler first.
   */
  readonly signal: AbortSignal;
  /** Log lines with the run's ids. */
  readonly log: Logger;

  readonly #key: Key;
  readonly #outlet: Outlet;
  readonly #controller = new AbortController();
  #stopped: Cancelled | undefined;
  #over = false;
  #processed = 0;
  #failed = 0;
  #newOffset: Buffer | undefined;
  #progress = { percent: 0, message: "" };
  #untold = false;
  #progressAt = -Infinity;
  // When the first offset was set.
  #offsetAt: number | undefined;
  #progressTimer: NodeJS.Timeout | undefined;

  /** @internal */
  constructor(parts: RunParts, outlet: Outlet) {
    const { key, trigger } = parts;
    this.#key = key;
    this.#outlet = outlet;
    this.job = key.job;
    this.item = key.item;
    this.token = key.token;
    this.total = trigger.shardingTotalCount;
    this.itemParameter = trigger.itemParameter;
    this.jobParameter = trigger.jobParameter;
    this.props = Object.freeze({ ...parts.props });
    this.fireTime = new Date(instant(trigger.fireTime));
    this.source = (RunSource[trigger.source] as Source | undefined) ?? "UNSPECIFIED";
    this.attempt = parts.attempt;
    this.offset = Buffer.from(parts.offset);
    this.deadline = parts.deadline === undefined ? undefined : new Date(parts.deadline);
    this.instanceId = parts.instanceId;
    this.taskId = trigger.taskId;
    this.traceContext = Object.freeze({ ...trigger.traceContext });
    this.streaming = trigger.streaming;
    this.signal = watchful(this.#controller.signal, () => this.cancelled);
    this.log = withPrefix(outlet.log, `[${keyText(key)}] `, this.ids);
  }

  /** The run's ids, for log lines. */
  get ids(): RunIds {
    const { job, item, instanceId: instance, taskId } = this;
    return { job, item, token: String(this.token), instance, taskId };
  }

  /**
   * Whether the run must stop. It also works in a handler that never awaits, so check it now and then in long
   * computations.
   */
  get cancelled(): boolean {
    if (this.#stopped === undefined && !this.#over) {
      const told = this.#outlet.told();
      if (told !== undefined) {
        this.stop(told);
      } else if (this.#outlet.leaseOver()) {
        this.#outlet.expired(this.#key);
        this.stop(StopReason.LEASE);
      }
    }
    return this.#stopped !== undefined;
  }

  /** Why the run must stop, for people; empty while it need not. */
  get cancelReason(): string {
    return this.cancelled ? (this.#stopped?.message ?? "") : "";
  }

  /** Throws {@link Cancelled} if the run must stop. */
  throwIfCancelled(): void {
    this.signal.throwIfAborted();
  }

  /** The worker is leaving: a run that can end early and be continued later should. */
  get leaving(): boolean {
    return this.#outlet.leaving();
  }

  /**
   * Sets the item's offset, at most 64 KiB, for its next run. The coordinator stores it with the outcome, and about
   * once a second until then, so that a run that replaces this one after a crash continues from there.
   */
  setOffset(offset: Uint8Array | string): void {
    const data = Buffer.from(offset as Uint8Array);
    if (data.length > MAX_OFFSET) throw new RangeError(`an offset may have ${MAX_OFFSET} bytes, not ${data.length}`);
    this.#newOffset = data;
    // A run that ends sooner sends this only with its end.
    this.#tellProgressAt(Math.max(this.#progressAt, (this.#offsetAt ??= this.#outlet.now())) + PROGRESS_EVERY);
  }

  /** Adds to the counts of records that the outcome will carry. */
  count(processed: number, failed = 0): void {
    for (const [name, value] of Object.entries({ processed, failed })) {
      if (!Number.isSafeInteger(value) || value < 0) {
        throw new RangeError(`counts only grow: ${name} must be a whole number from 0, not ${value}`);
      }
    }
    this.#processed += processed;
    this.#failed += failed;
  }

  /** Reports progress to people, 0 to 100. Cheap: of many calls in a row only the last is sent. */
  progress(percent: number, message = ""): void {
    const whole = Math.max(0, Math.min(100, Math.trunc(percent) || 0));
    this.#progress = { percent: whole, message: shorten(message, MAX_PROGRESS) };
    this.#tellProgressAt(this.#progressAt + PROGRESS_EVERY);
  }

  #tellProgressAt(at: number): void {
    this.#untold = true;
    const wait = at - this.#outlet.now();
    if (wait <= 0) this.#tellProgress();
    else
      this.#progressTimer ??= setTimeout(() => {
        this.#tellProgress();
      }, wait).unref();
  }

  #tellProgress(): void {
    clearTimeout(this.#progressTimer);
    this.#progressTimer = undefined;
    if (!this.#untold || this.#over) return;
    this.#untold = false;
    this.#progressAt = this.#outlet.now();
    this.#outlet.progress(this.#key, this.#progress.percent, this.#progress.message, this.#newOffset);
  }

  /** @internal */
  get key(): Key {
    return this.#key;
  }

  /** @internal What user code has set; later calls have no effect. */
  close(): { processed: number; failed: number; offset: Uint8Array | undefined } {
    this.#over = true;
    clearTimeout(this.#progressTimer);
    return this.counts();
  }

  /** @internal */
  counts(): { processed: number; failed: number; offset: Uint8Array | undefined } {
    return { processed: this.#processed, failed: this.#failed, offset: this.#newOffset };
  }

  /** @internal */
  stop(reason: StopReason): void {
    if (this.#stopped !== undefined) return;
    this.#stopped = new Cancelled(reason);
    this.#controller.abort(this.#stopped);
  }
}

/** Reading the signal checks the lease first; listeners are notified as usual. */
function watchful(signal: AbortSignal, look: () => boolean): AbortSignal {
  // eslint-disable-next-line @typescript-eslint/unbound-method -- it is called on the signal below
  const { throwIfAborted } = signal;
  Object.defineProperty(signal, "aborted", { get: look, configurable: true });
  Object.defineProperty(signal, "throwIfAborted", {
    value: () => {
      look();
      throwIfAborted.call(signal);
    },
    configurable: true,
  });
  return signal;
}

function withPrefix(logger: Logger, prefix: string, ids: RunIds): Logger {
  return {
    debug: (message, fields) => {
      logger.debug(prefix + message, { ...ids, ...fields });
    },
    info: (message, fields) => {
      logger.info(prefix + message, { ...ids, ...fields });
    },
    warn: (message, fields) => {
      logger.warn(prefix + message, { ...ids, ...fields });
    },
    error: (message, fields) => {
      logger.error(prefix + message, { ...ids, ...fields });
    },
  };
}
