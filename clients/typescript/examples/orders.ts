/**
 * A full example: a job that comes with the worker and archives orders, one region per item.
 *
 * It takes batches until none is left, continues where the last run stopped, passes its fencing token to the store that
 * it writes to, stops on request, and serves health. Try it: `rosterd dev`, then `node orders.js`, then `rosterd jobs
 * trigger orders`.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { Fatal, Worker, type Logger, type Run } from "rosterd";

interface Order {
  readonly id: number;
  readonly region: string;
}

/** Stands for a database that refuses writes of a run that another one has replaced. */
class Archive {
  readonly #tokens = new Map<string, bigint>();
  readonly #orders: Order[] = [];

  write(region: string, token: bigint, orders: readonly Order[]): void {
    if (token < (this.#tokens.get(region) ?? 0n)) throw new Fatal(`a newer run archives ${region}`);
    this.#tokens.set(region, token);
    this.#orders.push(...orders);
  }
}

const REGIONS = ["north", "south", "west"];
const ORDERS_PER_REGION = 250;
const BATCH = 100;
const archive = new Archive();
const metrics = { running: 0, failed: 0 };

async function fetch(run: Run, signal: AbortSignal): Promise<Order[]> {
  // Ends early, with the signal's reason, when the run must stop.
  await sleep(50, undefined, { signal });
  const from = positionOf(run);
  const count = Math.max(0, Math.min(BATCH, ORDERS_PER_REGION - from));
  return Array.from({ length: count }, (_, index) => ({ id: from + index, region: run.itemParameter }));
}

const positions = new WeakMap<Run, number>();

function positionOf(run: Run): number {
  return positions.get(run) ?? Number(run.offset.toString() || 0);
}

function archiveBatch(run: Run, orders: readonly Order[]): void {
  archive.write(run.itemParameter, run.token, orders);
  const next = positionOf(run) + orders.length;
  positions.set(run, next);
  run.setOffset(String(next));
  run.progress((100 * next) / ORDERS_PER_REGION, `${String(next)} orders of ${run.itemParameter}`);
  run.log.info("archived", { orders: orders.length, until: next });
}

/** One JSON object a line; the ids of the run are among the fields. */
const line = (level: string) => (message: string, fields?: object) => {
  console.log(JSON.stringify({ level, message, ...fields }));
};
const logger: Logger = { debug: () => undefined, info: line("info"), warn: line("warn"), error: line("error") };

const worker = new Worker({
  labels: { zone: "a" },
  logger,
  drainTimeoutMs: 10_000,
  health: { port: Number(process.env.HEALTH_PORT ?? 0) },
  hooks: {
    runStarted: () => void (metrics.running += 1),
    runEnded: (_, end) => {
      metrics.running -= 1;
      if (end.how === "raised") metrics.failed += 1;
    },
  },
});

worker.dataflow("orders", {
  fetch,
  process: archiveBatch,
  onAllCompleted: (fire) => {
    logger.info(`all regions are archived for ${fire.fireTime.toISOString()}`);
  },
  config: {
    items: REGIONS.length,
    itemParameters: REGIONS,
    cron: "0 0/5 * * * ?",
    timeZone: "Europe/Berlin",
    kind: "dataflow",
    streaming: true,
    failover: true,
    timeoutMs: 60_000,
    retries: { maxAttempts: 3, backoffMs: 500 },
    guarantee: { completed: true },
  },
});

await worker.run();
