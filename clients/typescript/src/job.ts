/** A job of this worker: its name, its handler and its hooks. */

import { readFileSync } from "node:fs";
import { configText, type JobConfig } from "./config.js";
import { InvalidOption } from "./errors.js";
import type { Registration } from "./machine/types.js";
import type { Run } from "./run.js";

const MAX_CONFIG = 64 * 1024;

/**
 * Called for every run. What it returns becomes the run's output (a string, or JSON). If it throws, the run has failed
 * and is retried by the job's policy.
 */
export type Handler = (run: Run, signal: AbortSignal) => unknown;

/** All items of one fire of a job. */
export interface Fire {
  readonly job: string;
  readonly fireTime: Date;
}

/** The options of a job besides its handler. */
export interface JobOptions {
  /**
   * A job file that creates the job if it is absent: typed, or YAML or JSON text, or a `file:` URL. At most 64 KiB.
   */
  config?: JobConfig | string | URL | undefined;
  /** The config replaces that of a job that exists. */
  overwrite?: boolean | undefined;
  /** What runs the job, the same on all its workers in all languages; default: the job's name. */
  handlerType?: string | undefined;
  /** Before every attempt; if it throws, the attempt has failed. */
  before?: ((run: Run) => unknown) | undefined;
  /** After every attempt, however it ended; if it throws, the attempt has failed. */
  after?: ((run: Run) => unknown) | undefined;
  /** After an attempt that threw. */
  onError?: ((run: Run, error: unknown) => unknown) | undefined;
  /** Before any item of a fire runs, announced to one worker. */
  onAllStarted?: ((fire: Fire) => unknown) | undefined;
  /** After the last item of a fire has ended, announced to one worker. */
  onAllCompleted?: ((fire: Fire) => unknown) | undefined;
}

/** Fetches and processes; if the job streams, again until fetch returns nothing. */
export interface Dataflow<T> extends JobOptions {
  /** Nothing is left if it returns undefined, null, or a value with a length or size of 0. */
  fetch: (run: Run, signal: AbortSignal) => T | Promise<T>;
  process: (run: Run, data: NonNullable<T>, signal: AbortSignal) => unknown;
}

/** A job with its handler. */
export interface Job {
  readonly name: string;
  readonly handler: Handler;
  readonly options: JobOptions;
}

/** Checks the arguments. */
export function jobOf(name: string, handler: Handler, options: JobOptions): Job {
  if (typeof name !== "string" || name === "") {
    throw new InvalidOption(`job: a job needs a name, not ${JSON.stringify(name)}: give it as text`);
  }
  if (typeof handler !== "function") {
    throw new InvalidOption(`job '${name}': the handler is ${typeof handler}, which cannot be called: give a function`);
  }
  for (const hook of ["before", "after", "onError", "onAllStarted", "onAllCompleted"] as const) {
    const given: unknown = options[hook];
    if (given !== undefined && typeof given !== "function") {
      throw new InvalidOption(`job '${name}': ${hook} is ${typeof given}, which cannot be called: give a function`);
    }
  }
  return { name, handler, options };
}

/** The registration of a job. */
export function registrationOf(job: Job): Registration {
  const { handlerType, overwrite } = job.options;
  return {
    job: job.name,
    handlerType: handlerType ?? job.name,
    config: configOf(job),
    overwrite: overwrite ?? false,
  };
}

function configOf(job: Job): string {
  const { config } = job.options;
  let text: string;
  if (config === undefined) text = "";
  else if (typeof config === "string") text = config;
  else if (config instanceof URL) text = fileText(job.name, config);
  else text = configText(job.name, config, job.options.overwrite ?? false);
  const length = Buffer.byteLength(text);
  if (length > MAX_CONFIG) {
    throw new InvalidOption(
      `job '${job.name}': config has ${length} bytes, at most ${MAX_CONFIG}: use \`rosterd jobs apply\` for it`,
    );
  }
  return text;
}

function fileText(job: string, file: URL): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const { code = "it fails" } = error as NodeJS.ErrnoException;
    throw new InvalidOption(`job '${job}': config ${file.href} cannot be read: ${code}: name a job file`);
  }
}

/** One attempt, with its hooks. */
export async function attempt(job: Job, run: Run): Promise<unknown> {
  const { before, after, onError } = job.options;
  try {
    if (before !== undefined) await before(run);
    return await job.handler(run, run.signal);
  } catch (error) {
    try {
      await onError?.(run, error);
    } catch (second) {
      run.log.error("onError failed", { error: second });
    }
    throw error;
  } finally {
    await after?.(run);
  }
}

/**
 * Ends earlier if the run must stop, and cleanly between two batches if the worker is leaving. The length of a
 * processed batch is counted, unless `process` counts itself.
 */
export function dataflowHandler<T>(name: string, flow: Dataflow<T>): Handler {
  for (const step of ["fetch", "process"] as const) {
    if (typeof flow[step] !== "function") {
      throw new InvalidOption(`job '${name}': ${step} is ${typeof flow[step]}: give a function`);
    }
  }
  return async (run, signal) => {
    for (;;) {
      const data = (await flow.fetch(run, signal)) as T;
      if (isEmpty(data)) return;
      const before = run.counts();
      await flow.process(run, data as NonNullable<T>, signal);
      const after = run.counts();
      if (before.processed === after.processed && before.failed === after.failed) run.count(lengthOf(data) ?? 1);
      if (!run.streaming || run.leaving) return;
      run.throwIfCancelled();
    }
  };
}

function isEmpty(data: unknown): data is null | undefined {
  return data === undefined || data === null || lengthOf(data) === 0;
}

function lengthOf(data: unknown): number | undefined {
  if (typeof data === "string") return data.length;
  if (typeof data !== "object" || data === null) return undefined;
  const { length, size } = data as { length?: unknown; size?: unknown };
  if (typeof length === "number") return length;
  return typeof size === "number" ? size : undefined;
}
