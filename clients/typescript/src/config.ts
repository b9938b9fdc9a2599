/** The configuration of a job, typed, and as the job file that a registration carries. Times are in milliseconds. */

import { InvalidOption } from "./errors.js";

/** How a job is scheduled and run. Fields that are not set have the defaults on the guide's page on job fields. */
export interface JobConfig {
  /** The number of items, 1 to 100000. */
  items: number;
  /** Quartz notation, `0/30 * * * * ?`; without one the job runs only when it is triggered. */
  cron?: string | undefined;
  /** Zone of the schedule, an IANA name; default: UTC. */
  timeZone?: string | undefined;
  /** One parameter per item: by position, or by item. No commas in them. */
  itemParameters?: readonly string[] | Readonly<Record<number, string>> | undefined;
  /** One parameter for all items. */
  jobParameter?: string | undefined;
  description?: string | undefined;
  /** A label of the job, for people. */
  label?: string | undefined;
  /** Properties by name, which the worker gets. */
  props?: Readonly<Record<string, string>> | undefined;
  /** Whether the job starts disabled. */
  disabled?: boolean | undefined;
  /** Keep a record of running items; without it no failover, no misfire and no offsets. Default: true. */
  monitorExecution?: boolean | undefined;
  /** Run an item elsewhere when its worker has died. Default: false. */
  failover?: boolean | undefined;
  /** Run an item once more if it was busy at a scheduled time. Default: true. */
  misfire?: boolean | undefined;
  /** How items are spread over instances. Default: AVG_ALLOCATION. */
  strategy?: "AVG_ALLOCATION" | "ODEVITY" | "ROUND_ROBIN" | "STICKY" | (string & {}) | undefined;
  /** How a run goes; default: simple. */
  kind?: "simple" | "dataflow" | undefined;
  /** For a dataflow: fetch again until there is nothing. */
  streaming?: boolean | undefined;
  /** How often the assignment is checked without a cause, in minutes; below 1: never. Default: 10. */
  reconcileIntervalMinutes?: number | undefined;
  /** A run that takes longer is told to stop, and has timed out; default: none. */
  timeoutMs?: number | undefined;
  /** Attempts of one run. */
  retries?: Retries | undefined;
  /** How many times a run is failed over after its worker died. Default: 3. */
  maxFailovers?: number | undefined;
  /** The age up to which a late fire runs as if on time. Default: 10000. */
  catchUpWindowMs?: number | undefined;
  /** How older fires are handled: one run for all of them, or a record of each gap. */
  tooLate?: "run_once" | "missed" | undefined;
  /** A scheduled time that daylight saving skips: fires when the gap ends, or not. Default: fire_at_end. */
  gap?: "fire_at_end" | "skip" | undefined;
  /** A worker without heartbeats for this long is marked dead, 100 to 600000; default: the lease. */
  disconnectGraceMs?: number | undefined;
  /** A coordinator whose clock is off by more does not fire this job. */
  maxClockDifferenceMs?: number | undefined;
  /** Callbacks before the first and after the last item of a fire. */
  guarantee?: Guarantee | undefined;
}

export interface Retries {
  /** 1 to 100, the first included. Default: 1. */
  maxAttempts: number;
  /** Pause before the second attempt. Default: 1000. */
  backoffMs?: number | undefined;
  /** Each further pause is this many times as long as the one before. Default: 2. */
  backoffMultiplier?: number | undefined;
  /** No pause is longer. Default: 60000. */
  backoffMaxMs?: number | undefined;
}

export interface Guarantee {
  /** Hold each fire until one worker has answered its callback. */
  started?: boolean | undefined;
  /** Call back one worker when all items of a fire have completed. */
  completed?: boolean | undefined;
  /** How long to wait for all items to start, and then for the answer. Default: 60000. */
  timeoutMs?: number | undefined;
  /** How a held fire without an answer is handled: runs, or is skipped. Default: run. */
  onTimeout?: "run" | "skip" | undefined;
}

const ELASTIC_STRATEGIES = new Set(["AVG_ALLOCATION", "ODEVITY", "ROUND_ROBIN"]);

/** The job file, as JSON. The coordinator validates the values; what it cannot see is validated here. */
export function configText(job: string, config: JobConfig, overwrite: boolean): string {
  const { strategy, retries, guarantee } = config;
  const elastic = strategy === undefined || ELASTIC_STRATEGIES.has(strategy);
  return JSON.stringify({
    jobName: job,
    cron: config.cron,
    timeZone: config.timeZone,
    shardingTotalCount: config.items,
    shardingItemParameters: parametersText(job, config),
    jobParameter: config.jobParameter,
    description: config.description,
    label: config.label,
    props: config.props,
    disabled: config.disabled,
    monitorExecution: config.monitorExecution,
    failover: config.failover,
    misfire: config.misfire,
    jobShardingStrategyType: elastic ? strategy : undefined,
    reconcileIntervalMinutes: config.reconcileIntervalMinutes,
    overwrite: overwrite ? true : undefined,
    rosterd: unlessEmpty({
      kind: config.kind,
      streaming: config.streaming,
      strategy: elastic ? undefined : strategy,
      run_timeout_ms: config.timeoutMs,
      max_failovers: config.maxFailovers,
      catch_up_window_ms: config.catchUpWindowMs,
      too_late: config.tooLate,
      gap: config.gap,
      disconnect_grace_ms: config.disconnectGraceMs,
      max_clock_diff_ms: config.maxClockDifferenceMs,
      retries: retries && {
        max_attempts: retries.maxAttempts,
        backoff_ms: retries.backoffMs,
        backoff_multiplier: retries.backoffMultiplier,
        backoff_max_ms: retries.backoffMaxMs,
      },
      guarantee: guarantee && {
        started: guarantee.started,
        completed: guarantee.completed,
        timeout_ms: guarantee.timeoutMs,
        on_timeout: guarantee.onTimeout,
      },
    }),
  });
}

function parametersText(job: string, config: JobConfig): string | undefined {
  const given = config.itemParameters;
  if (given === undefined) return undefined;
  const entries = Object.entries(given as Readonly<Record<string, string>>);
  for (const [item, parameter] of entries) {
    const field = `job '${job}': itemParameters[${item}]`;
    if (!/^\d+$/.test(item) || Number(item) >= config.items) {
      throw new InvalidOption(`${field}: there is no such item of ${config.items}: give 0 to ${config.items - 1}`);
    }
    if (parameter.includes(",")) {
      throw new InvalidOption(`${field} is '${parameter}': a job file parts parameters by commas: use another sign`);
    }
  }
  return entries.map(([item, parameter]) => `${item}=${parameter}`).join(",");
}

function unlessEmpty(fields: Record<string, unknown>): Record<string, unknown> | undefined {
  return Object.values(fields).some((value) => value !== undefined) ? fields : undefined;
}
