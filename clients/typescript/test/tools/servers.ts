/**
 * PostgreSQL and Redis for tests of fences, from Debian's packages, and S3 by moto, from PyPI; each in a folder of its own,
 * on loopback.
 */

import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const DEBIAN = "/usr/lib/postgresql";
/** From the environment that `cargo xtask setup` creates for the Python client. */
const MOTO = fileURLToPath(new URL("../../../../../target/python/bin/moto_server", import.meta.url));

export interface Started {
  readonly port: number;
  stop(): Promise<void>;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function started(port: number, child: ChildProcess, folder: string): Started {
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    rmSync(folder, { recursive: true, force: true });
  };
  return { port, stop };
}

export async function startRedis(): Promise<Started> {
  assert.ok(existsSync("/usr/bin/redis-server"), "redis-server is not there: apt-get install redis-server");
  const folder = mkdtempSync(join(tmpdir(), "rosterd-redis-"));
  const port = await freePort();
  const flags = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""];
  return started(port, spawn("/usr/bin/redis-server", flags, { stdio: "ignore" }), folder);
}

export async function startS3(): Promise<Started> {
  const program = process.env.ROSTERD_S3_SERVER ?? MOTO;
  assert.ok(existsSync(program), `${program} is not there: cargo xtask setup, or name one (ROSTERD_S3_SERVER)`);
  const folder = mkdtempSync(join(tmpdir(), "rosterd-s3-"));
  const port = await freePort();
  const flags = ["-H", "127.0.0.1", "-p", String(port)];
  return started(port, spawn(program, flags, { stdio: "ignore", cwd: folder }), folder);
}

/** PostgreSQL does not run as root: as root, use the user of Debian's package. */
function owner(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

export async function startPostgres(): Promise<Started> {
  assert.ok(existsSync(DEBIAN), "PostgreSQL is not there: apt-get install postgresql");
  const version = readdirSync(DEBIAN).sort().at(-1) ?? "";
  const program = (name: string) => join(DEBIAN, version, "bin", name);
  const folder = mkdtempSync(join(tmpdir(), "rosterd-postgres-"));
  const data = join(folder, "data");
  const user = owner();
  mkdirSync(data);
  if (user !== undefined) {
    chmodSync(folder, 0o755);
    chownSync(data, user.uid, user.gid);
  }
  const as = { ...user, stdio: "ignore" as const, cwd: data };
  execFileSync(program("initdb"), ["-D", data, "-U", "tests", "-A", "trust", "--no-sync"], as);
  const port = await freePort();
  const flags = ["-D", data, "-p", String(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="];
  return started(port, spawn(program("postgres"), [...flags, "-F"], as), folder);
}
