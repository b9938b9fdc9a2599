/** The worker: collects jobs, then runs until it is asked to leave. */

import { Worker as Thread } from "node:worker_threads";
import { ownAddress } from "./address.js";
import { Shared } from "./clock.js";
import { InvalidOption, JobRefused, LeaveTimedOut, Rejected, RosterdError } from "./errors.js";
import {
  dataflowHandler,
  jobOf,
  registrationOf,
  type Dataflow,
  type Handler,
  type Job,
  type JobOptions,
} from "./job.js";
import { stderrLogger, withRunIds, type Logger } from "./log.js";
import type { UserEvent } from "./machine/events.js";
import { StopReason, type Defeat } from "./machine/types.js";
import { resolve, type Resolved, type WorkerOptions } from "./options.js";
import { Runner, type Hooks } from "./runner.js";
import { Signals } from "./signals.js";
import type { Line, News, Orders } from "./thread/link.js";
import { findTracing } from "./trace.js";

/** How a worker is run. */
export interface RunOptions {
  /**
   * SIGTERM and SIGINT make the worker leave, a second one ends the process immediately; one within a second of the
   * first counts as the first. Default: true. False: the program handles them.
   */
  signals?: boolean | undefined;
  /** Once it is aborted the worker leaves in order. */
  signal?: AbortSignal | undefined;
}

/**
 * One worker process: one stream to a coordinator carries all its jobs.
 *
 * Stream, heartbeats and timers have a thread of their own: a handler may keep its thread busy without losing the
 * lease.
 */
export class Worker {
  readonly #resolved: Resolved;
  readonly #log: Logger;
  readonly #hooks: Hooks;
  readonly #jobs = new Map<string, Job>();
  readonly #early: UserEvent[] = [];
  #ran = false;
  #post: ((event: UserEvent) => void) | undefined;
  #over = false;
  #healthPort: number | undefined;

  /** Throws {@link InvalidOption} if an option is not valid. */
  constructor(options: WorkerOptions = {}) {
    this.#resolved = resolve(options);
    this.#log = withRunIds(options.logger ?? stderrLogger());
    this.#hooks = options.hooks ?? {};
  }

  // ---- jobs

  /** Adds a job: the handler is called for every run of its items that this worker gets. */
  job(name: string, handler: Handler, options: JobOptions = {}): this {
    return this.#add(jobOf(name, handler, options));
  }

  /** Adds a job that fetches and processes, and repeats it until fetch returns nothing if the job streams. */
  dataflow<T>(name: string, flow: Dataflow<T>): this {
    return this.#add(jobOf(name, dataflowHandler(name, flow), flow));
  }

  #add(job: Job): this {
    if (this.#ran) throw new Error(`job '${job.name}': jobs are added before the worker runs`);
    if (this.#jobs.has(job.name)) throw new InvalidOption(`job '${job.name}' is there already: give another name`);
    registrationOf(job);
    this.#jobs.set(job.name, job);
    return this;
  }

  // ---- working

  /**
   * Runs until the worker has left. Rejects with {@link JobRefused} if no job is left, with {@link Rejected} if every
   * coordinator rejects the worker.
   */
  async run(options: RunOptions = {}): Promise<void> {
    if (this.#ran) throw new Error("a worker runs once");
    if (this.#jobs.size === 0) throw new Error("a worker without jobs has nothing to do");
    this.#ran = true;
    await findTracing();
    const { settings, access, health } = this.#resolved;
    const shared = Shared.create(settings.slots);
    const { signal } = options;
    const signals = new Signals(
      () => {
        this.#send({ type: "leave", signalled: true });
      },
      () => shared.boot(),
      this.#log,
      (code) => process.exit(code),
    );
    const leave = () => {
      this.stop();
    };
    if (options.signals ?? true) signals.listen();
    signal?.addEventListener("abort", leave, { once: true });
    if (signal?.aborted === true) leave();
    try {
      const orders: Orders = {
        settings: { ...settings, address: settings.address || (await ownAddress(settings.servers[0] ?? "")) },
        access,
        registrations: [...this.#jobs.values()].map(registrationOf),
        shared: shared.parts,
        health,
        metrics: Object.keys(this.#hooks).length > 0,
      };
      await this.#work(orders, shared, signals);
    } finally {
      this.#over = true;
      signals.ignore();
      signal?.removeEventListener("abort", leave);
    }
  }

  /** Leave in order: runs have `graceMs` milliseconds; default: `drainTimeoutMs`. */
  stop(graceMs?: number): void {
    this.#send({ type: "leave", grace: graceMs });
  }

  /** The port of health, once it is served. */
  get healthPort(): number | undefined {
    return this.#healthPort;
  }

  #send(event: UserEvent): void {
    if (this.#over) return;
    if (this.#post === undefined) this.#early.push(event);
    else this.#post(event);
  }

  async #work(orders: Orders, shared: Shared, signals: Signals): Promise<void> {
    // The thread does not inherit the program's own loaders and flags.
    const thread = new Thread(new URL("./thread/main.js", import.meta.url), {
      name: "rosterd",
      workerData: orders,
      execArgv: [],
    });
    const post = (event: UserEvent) => {
      if (!this.#over) thread.postMessage(event);
    };
    const runner = new Runner(
      this.#jobs,
      {
        leaseLeft: () => shared.leaseLeft(),
        leaseOver: () => shared.leaseOver(),
        liveStream: () => shared.liveStream,
        leaving: () => shared.leaving,
        stop: (place) => shared.stop(place),
        now: () => shared.now(),
        post,
      },
      this.#log,
      this.#hooks,
    );
    this.#post = post;
    for (const event of this.#early.splice(0)) post(event);
    let defeat: Defeat | undefined;
    try {
      defeat = await this.#news(thread, runner, shared);
    } finally {
      this.#over = true;
      runner.close();
      await thread.terminate();
    }
    // The worker does not wait for handlers that ignore the request to end: the process must exit, after the caller's
    // continuation has run.
    if (signals.came && runner.size > 0) setImmediate(() => process.exit());
    if (defeat !== undefined) throw errorOf(defeat);
  }

  /** Handles the messages of the thread, until it reports its end. */
  #news(thread: Thread, runner: Runner, shared: Shared): Promise<Defeat | undefined> {
    return new Promise((done) => {
      const failed = (detail: string) => {
        this.#log.error(`the worker's own code failed: its runs are no longer covered by a lease: ${detail}`);
        shared.leaseStopsAt = -Infinity;
        runner.stopAll(StopReason.LEASE);
        done({ kind: "internal", detail });
      };
      thread.on("message", (news: News) => {
        switch (news.type) {
          case "start":
            return runner.start(news);
          case "stop":
            return runner.stop(news.key, news.reason);
          case "callback":
            return runner.callback(news.callback);
          case "over":
            if (news.defeat?.kind === "internal") failed(news.defeat.detail);
            return done(news.defeat);
          default:
            shared.lines(-1);
            return this.#line(news);
        }
      });
      thread.on("error", (error) => {
        failed(error instanceof Error ? (error.stack ?? error.message) : String(error));
      });
      thread.on("exit", (code) => {
        if (!this.#over) failed(`its thread ended with code ${code}`);
      });
    });
  }

  #line(line: Line): void {
    try {
      if (line.type === "note") this.#log[line.level](line.text);
      else if (line.type === "attached") this.#hooks.attached?.(line.server, line.instanceId);
      else if (line.type === "detached") this.#hooks.detached?.(line.server, line.reason);
      else if (line.type === "renewed") this.#hooks.leaseRenewed?.(line.roundTrip);
      else {
        this.#healthPort = line.port;
        this.#log.info(`health is served on port ${line.port}`);
      }
    } catch (error) {
      // A logger or a hook of the program: it must not end the worker.
      process.emitWarning(error instanceof Error ? error : String(error));
    }
  }
}

function errorOf(defeat: Defeat): RosterdError {
  switch (defeat.kind) {
    case "refused":
      return new JobRefused(defeat.code, defeat.detail, defeat.job);
    case "rejected":
      return new Rejected(defeat.code, defeat.detail);
    case "leave timed out":
      return new LeaveTimedOut(defeat.inFlight);
    case "internal":
      return new RosterdError(`internal error: ${defeat.detail}`);
  }
}
