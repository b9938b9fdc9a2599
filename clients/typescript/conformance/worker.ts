/**
 * A worker for `rosterd conformance`: its handler does what the item's parameter says, so the kit writes the script,
 * and each event of its runs is a line on standard output, in the form that `rosterd verify` reads.
 *
 *     node worker.js [JOB…]
 *
 * The coordinator and the credential come from the environment. So do CONFORMANCE_JOBS, if no job is named here,
 * CONFORMANCE_SLOTS, CONFORMANCE_DRAIN_MS, CONFORMANCE_ADDRESS, CONFORMANCE_CONFIG, CONFORMANCE_NAME and
 * CONFORMANCE_LOG; `rosterd conformance --help` describes them and the steps.
 */

import { appendFileSync, closeSync, existsSync, openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Fatal, Worker, type Fire, type JobOptions, type Run } from "../src/index.js";

type Step = (run: Run, rest: string, left: Left) => unknown;

/** The effects of a run's steps. */
interface Left {
  offset: string;
  output: string | undefined;
}

const LOOK_EVERY = 5;
const SLOW = 2_000;
/** The parameters of a flood of runs are not logged. */
const LONGEST_DETAIL = 200;

// ---- lines

const { env } = process;
const name = env.CONFORMANCE_NAME ?? "typescript";
const TOKEN = "the token";

function write(what: string, detail: string, run?: Run, more: object = {}): void {
  const text = JSON.stringify({
    at: Number(process.hrtime.bigint()),
    wall: Date.now(),
    worker: name,
    what,
    detail: detail.slice(0, LONGEST_DETAIL),
    ...more,
    ...(run && {
      job: run.job,
      item: run.item,
      token: TOKEN,
      fire: run.fireTime.getTime(),
      source: run.source,
      attempt: run.attempt,
      instance: run.instanceId,
    }),
  });
  // JSON has no numbers of 63 bits here, lines have.
  const line = `${run === undefined ? text : text.replace(`"${TOKEN}"`, String(run.token))}\n`;
  if (env.CONFORMANCE_LOG === undefined) writeSync(1, line);
  else appendFileSync(env.CONFORMANCE_LOG, line);
}

// ---- steps

const STEPS: Readonly<Record<string, Step>> = {
  succeed: () => undefined,
  fail: (_, text) => {
    throw new Error(text);
  },
  fatal: (_, text) => {
    throw new Fatal(text);
  },
  sleep: async (run, length) => {
    await wait(run, numberOf(length));
  },
  busy: (run, length) => {
    const until = performance.now() + numberOf(length);
    while (performance.now() < until) if (run.cancelled) stopped(run);
  },
  block: (_, length) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, numberOf(length));
  },
  ignore: async (_, length) => {
    await sleep(numberOf(length));
  },
  gate: async (run, path) => {
    while (!existsSync(path)) await wait(run, LOOK_EVERY);
  },
  once: async (run, rest, left) => {
    const [path, step] = parted(rest);
    if (existsSync(path)) return;
    closeSync(openSync(path, "a"));
    await perform(run, step, left);
  },
  progress: (run, rest) => {
    const [percent, text] = parted(rest);
    run.progress(numberOf(percent), text);
  },
  output: (_, text, left) => {
    left.output = text;
  },
  offset: setOffset,
  append: (run, text, left) => {
    setOffset(run, left.offset + text, left);
  },
  count: (run, rest) => {
    const [processed, failed] = parted(rest);
    run.count(numberOf(processed), numberOf(failed || "0"));
  },
  batches: () => undefined,
};

function setOffset(run: Run, offset: string, left: Left): void {
  run.setOffset(offset);
  left.offset = offset;
}

function parted(text: string): [string, string] {
  const at = text.indexOf(" ");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function numberOf(text: string): number {
  if (!/^\d+$/.test(text)) throw new Fatal(`'${text}' is no whole number`);
  return Number(text);
}

async function wait(run: Run, length: number): Promise<void> {
  try {
    await sleep(length, undefined, { signal: run.signal });
  } catch {
    stopped(run);
  }
  if (run.cancelled) stopped(run);
}

/** Logs that the run sees that it must stop. */
function stopped(run: Run): void {
  write("cancel", run.cancelReason, run);
  run.throwIfCancelled();
}

async function perform(run: Run, step: string, left: Left): Promise<void> {
  const [word, rest] = parted(step);
  if (word === "") return;
  const does = STEPS[word];
  if (does === undefined) throw new Fatal(`'${word}' is no step`);
  await does(run, rest, left);
}

const stepsOf = (run: Run): string[] => run.itemParameter.split(";").map((step) => step.trim());

async function all(run: Run): Promise<string | undefined> {
  const left: Left = { offset: run.offset.toString(), output: undefined };
  for (const step of stepsOf(run)) await perform(run, step, left);
  return left.output;
}

/** One attempt, with the lines of its start and its end. */
async function told<T>(run: Run, body: () => Promise<T>): Promise<T> {
  write("start", run.itemParameter, run);
  try {
    const result = await body();
    write("end", "ok", run);
    return result;
  } catch (error) {
    write("end", String(error), run);
    throw error;
  }
}

// ---- jobs

async function called(fire: Fire, detail: string): Promise<void> {
  write("callback", detail, undefined, { job: fire.job });
  if (fire.job.includes("slow-callback")) await sleep(SLOW);
  if (fire.job.includes("bad-callback")) throw new Error("refused");
}

/** The rest of the batches of each run. */
const batchesLeft = new WeakMap<Run, number>();
/** Runs whose attempt's end was written. */
const failed = new WeakSet<Run>();

function addDataflow(worker: Worker, job: string, options: JobOptions): void {
  worker.dataflow(job, {
    ...options,
    before: (run) => {
      const batches = stepsOf(run).find((step) => step.startsWith("batches "));
      batchesLeft.set(run, batches === undefined ? 0 : numberOf(parted(batches)[1]));
      write("start", run.itemParameter, run);
    },
    onError: (run, error) => {
      failed.add(run);
      write("end", String(error), run);
    },
    after: (run) => {
      if (!failed.has(run)) write("end", "ok", run);
    },
    fetch: (run) => {
      const left = batchesLeft.get(run) ?? 0;
      batchesLeft.set(run, left - 1);
      return left > 0 ? ["a record"] : [];
    },
    process: (run) => all(run),
  });
}

function add(worker: Worker, job: string, handlerType: string | undefined): void {
  const options: JobOptions = {
    config: env.CONFORMANCE_CONFIG === "" ? undefined : env.CONFORMANCE_CONFIG?.replaceAll("NAME", job),
    handlerType,
    onAllStarted: (fire) => called(fire, "started"),
    onAllCompleted: (fire) => called(fire, "completed"),
  };
  if (job.startsWith("dataflow")) addDataflow(worker, job, options);
  else worker.job(job, (run) => told(run, () => all(run)), options);
}

const worker = new Worker({
  slots: Number(env.CONFORMANCE_SLOTS ?? "4"),
  drainTimeoutMs: Number(env.CONFORMANCE_DRAIN_MS ?? "30000"),
  address: env.CONFORMANCE_ADDRESS,
});
const named = process.argv.slice(2);
for (const job of named) add(worker, job, undefined);
if (named.length === 0) {
  for (const job of (env.CONFORMANCE_JOBS ?? "conformance").split(",")) add(worker, job, "conformance");
}
try {
  await worker.run();
  write("exit", "left");
} catch (error) {
  write("exit", String(error));
  console.error(String(error));
  process.exitCode = 1;
}
