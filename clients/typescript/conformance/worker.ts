/**
 * A worker for the conformance kit: its handler does what the item's parameter says, so that the kit writes the script.
 *
 *     node worker.js JOB…
 *
 * The coordinator and the credential come from the environment. A parameter has steps, parted by `;`:
 *
 *     succeed                end well
 *     fail TEXT              fail, and be tried again if the job says so
 *     fatal TEXT             fail, and not be tried again
 *     sleep MS               wait, and stop when told to
 *     busy MS                keep the thread busy, and stop when told to
 *     ignore MS              wait, and ignore being told to stop
 *     progress N [TEXT]      tell how far it is
 *     output TEXT            leave this as the output
 *     offset TEXT            leave this as the item's offset
 */

import { setTimeout as sleep } from "node:timers/promises";
import { Fatal, Worker, type Run } from "../src/index.js";

type Step = (run: Run, rest: string) => unknown;

const STEPS: Readonly<Record<string, Step>> = {
  succeed: () => undefined,
  fail: (_, text) => {
    throw new Error(text);
  },
  fatal: (_, text) => {
    throw new Fatal(text);
  },
  sleep: async (run, length) => {
    await sleep(millisOf(length), undefined, { signal: run.signal });
  },
  busy: (run, length) => {
    const until = performance.now() + millisOf(length);
    while (performance.now() < until) run.throwIfCancelled();
  },
  ignore: async (_, length) => {
    await sleep(millisOf(length));
  },
  progress: (run, rest) => {
    const [percent = "", ...text] = rest.split(" ");
    run.progress(millisOf(percent), text.join(" "));
  },
  output: (_, text) => text,
  offset: (run, text) => {
    run.setOffset(text);
  },
};

function millisOf(text: string): number {
  if (!/^\d+$/.test(text)) throw new Fatal(`'${text}' is no whole number`);
  return Number(text);
}

async function perform(run: Run): Promise<unknown> {
  let output: unknown;
  for (const step of run.itemParameter.split(";").map((text) => text.trim())) {
    const [word = "", ...rest] = step.split(" ");
    const does = STEPS[word];
    if (does === undefined && word !== "") throw new Fatal(`'${word}' is no step`);
    output = (await does?.(run, rest.join(" "))) ?? output;
  }
  return output;
}

const jobs = process.argv.slice(2);
const worker = new Worker();
for (const job of jobs.length > 0 ? jobs : ["conformance"]) worker.job(job, perform);
await worker.run();
