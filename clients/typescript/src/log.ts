/** Where log lines go, and the ids of the run that writes them. */

import { AsyncLocalStorage } from "node:async_hooks";
import { inspect } from "node:util";
import type { Level } from "./machine/events.js";

/** The fields of a log line. */
export type Fields = Readonly<Record<string, unknown>>;

/** Receives log lines: a message that can be read alone, and fields. */
export interface Logger {
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
}

/** The ids of a run, for log lines. The token is text: JSON has no numbers of 63 bits. */
export interface RunIds {
  readonly job: string;
  readonly item: number;
  readonly token: string;
  readonly instance: string;
  /** Elastic-Job's id of the task. */
  readonly taskId: string;
}

const ofRun = new AsyncLocalStorage<RunIds>();

/**
 * The ids of the run whose handler is executing, also after awaits, and in timers and callbacks; undefined outside of
 * runs. For your own logger: `pino({ mixin: () => ({ ...runIds() }) })`.
 */
export function runIds(): RunIds | undefined {
  return ofRun.getStore();
}

/** Executes an action of a run. */
export function withIds<T>(ids: RunIds, action: () => T): T {
  return ofRun.run(ids, action);
}

/** The same logger with the ids of the run in flight in the fields of every line. */
export function withRunIds(logger: Logger): Logger {
  const line = (level: Level) => (message: string, fields?: Fields) => {
    logger[level](message, { ...runIds(), ...fields });
  };
  return { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
}

/** Lines on standard error: time, level, message, then the fields. */
export function stderrLogger(): Logger {
  const line = (level: Level) => (message: string, fields?: Fields) => {
    const told = Object.entries(fields ?? {}).map(([name, value]) => ` ${name}=${text(value)}`);
    process.stderr.write(`${new Date().toISOString()} ${level.toUpperCase().padEnd(5)} ${message}${told.join("")}\n`);
  };
  return { debug: () => undefined, info: line("info"), warn: line("warn"), error: line("error") };
}

function text(value: unknown): string {
  const written = typeof value === "string" ? value : inspect(value, { breakLength: Infinity });
  return /^[^\s"=]+$/.test(written) ? written : JSON.stringify(written);
}
