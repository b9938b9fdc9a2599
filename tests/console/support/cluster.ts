// A real coordinator and real workers: processes of the program under test, killed by their pid.
import assert from 'node:assert/strict';
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const BINARY =
  process.env.ROSTERD_BINARY ?? fileURLToPath(new URL('../../../target/release/rosterd', import.meta.url));
assert.ok(existsSync(BINARY), `${BINARY} is not there: cargo build --release, or name one by ROSTERD_BINARY`);

const PATIENCE = 30_000;

/** Waits for a state. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    assert.ok(Date.now() < deadline, `${what}: not within ${PATIENCE / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A process of ours. */
class Process {
  log = '';
  readonly child: ChildProcess;

  constructor(words: readonly string[], env: Record<string, string> = {}) {
    this.child = spawn(BINARY, words, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
    const hear = (text: string) => (this.log += text);
    this.child.stdout?.setEncoding('utf8').on('data', hear);
    this.child.stderr?.setEncoding('utf8').on('data', hear);
  }

  get ended(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    if (this.ended) return;
    const over = once(this.child, 'exit');
    this.child.kill(signal);
    await over;
  }
}

export interface JobFile {
  jobName: string;
  shardingTotalCount: number;
  cron?: string;
  [field: string]: unknown;
}

export interface Item {
  item: number;
  serverIp: string;
  instanceId: string;
  status: string;
  token: number;
}

/** One coordinator on a store of its own. */
export class Cluster {
  readonly folder = mkdtempSync(join(tmpdir(), 'rosterd-console-'));
  address = '';
  #coordinator: Process | undefined;
  #workers = new Map<string, Process>();
  #flags: string[];
  /** Sent with the tests' own requests. */
  credential: string | undefined;

  constructor(flags: string[] = []) {
    this.#flags = flags;
  }

  /** More flags, before its start. */
  use(...flags: string[]): void {
    this.#flags.push(...flags);
  }

  get url(): string {
    return `http://${this.address}`;
  }

  /** Starts it, the first time on any free port, then on the same. */
  async start(): Promise<void> {
    const listen = this.address || '127.0.0.1:0';
    const words = ['serve', '--data-dir', join(this.folder, 'data'), '--listen', listen, ...this.#flags];
    const started = new Process(words);
    this.#coordinator = started;
    const [, address] = await until('the coordinator serves', () => {
      assert.ok(!started.ended, `the coordinator has ended:\n${started.log}`);
      return /serving address=(\S+)/.exec(started.log) ?? undefined;
    });
    this.address = address!;
  }

  async kill(): Promise<void> {
    await this.#coordinator?.signal('SIGKILL');
  }

  /** Ends everything, and removes its files. */
  async stop(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => worker.signal('SIGKILL')));
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** A worker for a job, on a machine of that name; waits until it is attached. */
  async work(job: string, machine: string, program: string[], flags: string[] = []): Promise<void> {
    const words = ['exec', '--server', this.url, '--job', job, '--address', machine, ...flags, '--', ...program];
    const worker = new Process(words, this.credential ? { ROSTERD_CREDENTIAL: this.credential } : {});
    this.#workers.set(`${job}@${machine}`, worker);
    await until(`${machine} works for ${job}`, async () => {
      assert.ok(!worker.ended, `the worker ${machine} of ${job} has ended:\n${worker.log}`);
      const seen = await this.get<{ serverIp: string }[]>(`instances?job=${job}`).catch(() => []);
      return seen.some((one) => one.serverIp === machine);
    });
  }

  /** Kills a worker as a crash would, by its pid. */
  async killWorker(job: string, machine: string): Promise<void> {
    const worker = this.#workers.get(`${job}@${machine}`);
    assert.ok(worker, `${machine} does not work for ${job}`);
    await worker.signal('SIGKILL');
  }

  async hasEnded(job: string, machine: string): Promise<boolean> {
    return this.#workers.get(`${job}@${machine}`)?.ended ?? true;
  }

  async ask(method: string, path: string, body?: string): Promise<Response> {
    const headers: Record<string, string> = this.credential ? { authorization: `Bearer ${this.credential}` } : {};
    if (body !== undefined) headers['content-type'] = 'application/json';
    return fetch(`${this.url}/api/${path}`, { method, body, headers });
  }

  async get<T>(path: string): Promise<T> {
    const answer = await this.ask('GET', path);
    assert.equal(answer.status, 200, `${path}: ${await answer.clone().text()}`);
    return (await answer.json()) as T;
  }

  async apply(...jobs: JobFile[]): Promise<void> {
    const answer = await this.ask('PUT', 'jobs/config', JSON.stringify(jobs));
    assert.equal(answer.status, 200, await answer.text());
  }

  /** Whether its API has a route, as spelled in its description. */
  async has(path: string): Promise<boolean> {
    const { paths } = await this.get<{ paths: Record<string, unknown> }>('openapi.json');
    return path in paths;
  }

  items(job: string): Promise<Item[]> {
    return this.get<Item[]>(`jobs/${job}/sharding`);
  }

  async state(job: string): Promise<string> {
    return (await this.get<{ state: string }>(`jobs/${job}`)).state;
  }

  /** The output of the command line. */
  cli(...words: string[]): Promise<string> {
    return new Promise((resolve, reject) => {
      execFile(BINARY, words, (error, out, err) =>
        error ? reject(new Error(`rosterd ${words.join(' ')}: ${err}`)) : resolve(out),
      );
    });
  }

  write(name: string, text: string): string {
    const file = join(this.folder, name);
    writeFileSync(file, text, { mode: 0o600 });
    return file;
  }
}
