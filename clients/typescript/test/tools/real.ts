/** A real coordinator: `ROSTERD_BINARY`, else that of this repository's release build. */

import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "./workers.js";

export const BINARY =
  process.env.ROSTERD_BINARY ?? fileURLToPath(new URL("../../../../../target/release/rosterd", import.meta.url));
assert.ok(existsSync(BINARY), `${BINARY} is not there: \`cargo build --release\`, or name one by ROSTERD_BINARY`);

/** A run in the output of `rosterd runs --json`. */
export interface RunRecord {
  readonly item: number;
  readonly outcome: string | null;
  readonly output: string;
  readonly error: string;
  readonly source: string;
  readonly instance: string;
  readonly attempt: number;
  readonly processed: number;
  readonly token: number;
}

export class RealCoordinator {
  readonly folder = mkdtempSync(join(tmpdir(), "rosterd-real-"));
  address = "";
  log = "";
  #child: ChildProcess | undefined;
  readonly #flags: readonly string[];

  constructor(flags: readonly string[] = []) {
    this.#flags = flags;
  }

  /** Starts it, the first time on any free port, then on the same. */
  async start(): Promise<void> {
    const listen = this.address || "127.0.0.1:0";
    const data = join(this.folder, "data");
    const child = spawn(BINARY, ["serve", "--data-dir", data, "--listen", listen, ...this.#flags], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    let said = "";
    const hear = (text: string) => {
      said += text;
      this.log += text;
    };
    child.stdout.setEncoding("utf8").on("data", hear);
    child.stderr.setEncoding("utf8").on("data", hear);
    await until(() => said.includes("serving address=") || child.exitCode !== null, "the coordinator serves");
    const [, address] = /serving address=(\S+)/.exec(said) ?? [];
    assert.ok(address, said);
    this.address = address;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child?.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** The output of `rosterd …`. */
  ask(...command: string[]): Promise<string> {
    return new Promise((resolve, reject) => {
      execFile(BINARY, [...command, "--server", this.address], (error, output, errors) => {
        if (error === null) resolve(output);
        else reject(new Error(`rosterd ${command.join(" ")}: ${errors}`));
      });
    });
  }

  async apply(job: Readonly<Record<string, unknown>>): Promise<void> {
    const file = join(this.folder, "job.json");
    writeFileSync(file, JSON.stringify(job));
    await this.ask("jobs", "apply", "--file", file);
  }

  /** Latest first. */
  async runs(job: string): Promise<RunRecord[]> {
    return JSON.parse(await this.ask("runs", "--job", job, "--json")) as RunRecord[];
  }

  /** The instance at which an item's run is in flight; undefined: there is no run. */
  async runsAt(job: string, item: number): Promise<string | undefined> {
    const items = JSON.parse(await this.ask("items", "--job", job, "--json")) as {
      running: { instance: string } | null;
    }[];
    return items[item]?.running?.instance;
  }
}
