/**
 * Workers for rosterd in Node.js. Four nouns: a {@link Worker} with its {@link WorkerOptions} works for jobs; each
 * execution is a {@link Run}.
 *
 * @packageDocumentation
 */

export type { Guarantee, JobConfig, Retries } from "./config.js";
export { Cancelled, Fatal, InvalidOption, JobRefused, LeaveTimedOut, Rejected, RosterdError } from "./errors.js";
export type { Dataflow, Fire, Handler, JobOptions } from "./job.js";
export { runIds, withRunIds, type Fields, type Logger, type RunIds } from "./log.js";
export type { WorkerOptions } from "./options.js";
export type { Run, Source } from "./run.js";
export type { Hooks, RunEnd } from "./runner.js";
export { VERSION } from "./version.js";
export { Worker, type RunOptions } from "./worker.js";
