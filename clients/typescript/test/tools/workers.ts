/** Workers for tests: in this process, and in one of their own. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Worker, type Logger, type WorkerOptions } from "../../src/index.js";
import { PATIENCE, type Coordinator, type Session } from "./coordinator.js";

// The tests' own servers are on loopback; nothing of the environment may lead elsewhere.
for (const name of ["SERVER", "CREDENTIAL", "CA", "CERT", "KEY", "INSECURE_CREDENTIAL"]) {
  Reflect.deleteProperty(process.env, `ROSTERD_${name}`);
}

const CONFORMANCE = fileURLToPath(new URL("../../conformance/worker.js", import.meta.url));

/** Waits for a state. */
export async function until(condition: () => unknown, what: string): Promise<void> {
  const end = Date.now() + PATIENCE;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`${what}: the state does not come`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Keeps the lines, as `LEVEL message`. */
export class Lines implements Logger {
  readonly all: string[] = [];
  readonly fields: Readonly<Record<string, unknown>>[] = [];

  #line(level: string, message: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.all.push(`${level} ${message}`);
    this.fields.push(fields);
  }

  debug = (message: string, fields?: Readonly<Record<string, unknown>>): void => this.#line("debug", message, fields);
  info = (message: string, fields?: Readonly<Record<string, unknown>>): void => this.#line("info", message, fields);
  warn = (message: string, fields?: Readonly<Record<string, unknown>>): void => this.#line("warn", message, fields);
  error = (message: string, fields?: Readonly<Record<string, unknown>>): void => this.#line("error", message, fields);
}

export function workerOf(server: string, options: WorkerOptions = {}): Worker {
  return new Worker({ server, slots: 4, address: "10.0.0.1", logger: new Lines(), ...options });
}

/** A running worker. Its rejection is kept until it is awaited. */
export class Working {
  readonly worker: Worker;
  readonly over: Promise<void>;

  constructor(worker: Worker) {
    this.worker = worker;
    this.over = worker.run({ signals: false });
    this.over.catch(() => undefined);
  }

  async leave(session: Session): Promise<void> {
    this.worker.stop();
    await session.farewell();
    await this.over;
  }
}

/** The conformance worker, in a process of its own. */
export class Program {
  readonly child: ChildProcess;
  readonly exit: Promise<[number | null, NodeJS.Signals | null]>;
  errors = "";
  output = "";

  constructor(server: Coordinator | string, jobs: string[] = ["hello"], environment: NodeJS.ProcessEnv = {}) {
    const address = typeof server === "string" ? server : server.address;
    this.child = spawn(process.execPath, [CONFORMANCE, ...jobs], {
      env: { ...process.env, ROSTERD_SERVER: address, ...environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.errors += text));
    this.child.stdout?.setEncoding("utf8").on("data", (text: string) => (this.output += text));
    this.exit = once(this.child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
  }

  kill(signal: NodeJS.Signals = "SIGKILL"): void {
    this.child.kill(signal);
  }
}
