/** The options of a worker, and the only file that reads the environment. */

import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { InvalidOption } from "./errors.js";
import type { Logger } from "./log.js";
import { hostOf, loopback, secure, type Trusted } from "./machine/hosts.js";
import type { Settings } from "./machine/types.js";
import type { Hooks } from "./runner.js";

export { hostOf, loopback };

const DEFAULT_SERVER = "localhost:7700";
const MAX_SLOTS = 4096;
const FILES = { rootCertificates: "ROSTERD_CA", clientCertificate: "ROSTERD_CERT", clientKey: "ROSTERD_KEY" } as const;
const TIMES = ["drainTimeoutMs", "leaveTimeoutMs", "connectTimeoutMs", "longestDelayMs"] as const;

/** All options of a worker. Times are in milliseconds. Options that are not set come from the environment. */
export interface WorkerOptions {
  /**
   * Coordinators, `host:port`, `http://host:port` or `https://host:port`; one, several, or several separated by commas.
   * Else `ROSTERD_SERVER`, else `localhost:7700`.
   */
  server?: string | readonly string[] | undefined;
  /** Sent as `authorization: Bearer …`; else `ROSTERD_CREDENTIAL`. */
  credential?: string | undefined;
  /** The namespace this worker expects; default: any. */
  namespace?: string | undefined;
  /** This machine as operators know it, a label; default: the address that faces the coordinator. */
  address?: string | undefined;
  /** At most 32 of 128 bytes each. */
  labels?: Readonly<Record<string, string>> | undefined;
  /** How many runs may be in flight at a time, over all jobs, 1 to 4096; default: twice the processors, at least 4. */
  slots?: number | undefined;
  /** How long runs may still take when the worker leaves; then they are cancelled and handed back. Default 30000. */
  drainTimeoutMs?: number | undefined;
  /** How long the goodbye may take, over all coordinators, once the runs have ended. Default 10000. */
  leaveTimeoutMs?: number | undefined;
  /** How long connecting may take. Default 3000. */
  connectTimeoutMs?: number | undefined;
  /** The longest pause between two attempts to connect. Default 10000. */
  longestDelayMs?: number | undefined;
  /**
   * PEM, the authorities for coordinators at `https://` addresses; else the file that `ROSTERD_CA` names, else the
   * roots that Node.js brings.
   */
  rootCertificates?: string | Uint8Array | undefined;
  /** PEM: the worker's own certificate, if the coordinator requires one; else the file that `ROSTERD_CERT` names. */
  clientCertificate?: string | Uint8Array | undefined;
  /** PEM: its key; else the file that `ROSTERD_KEY` names. */
  clientKey?: string | Uint8Array | undefined;
  /** Send the credential also in plain text to another machine; else `ROSTERD_INSECURE_CREDENTIAL=true`. */
  insecureCredential?: boolean | undefined;
  /** Where log lines go; default: standard error, without those of level debug. */
  logger?: Logger | undefined;
  /** Hooks for metrics. */
  hooks?: Hooks | undefined;
  /** Serves `/healthz` and `/readyz` over HTTP; default: off. Port 0: any free one. Host: `127.0.0.1`. */
  health?: { readonly port: number; readonly host?: string } | undefined;
}

/** The options of the connection; may be posted to the thread. */
export interface Access {
  readonly credential: string | undefined;
  readonly insecureCredential: boolean;
  readonly given: Certificates;
  /** Files that the environment named: read again for each connection. */
  readonly files: Readonly<Partial<Record<keyof Certificates, string>>>;
}

export interface Certificates {
  readonly rootCertificates?: Uint8Array;
  readonly clientCertificate?: Uint8Array;
  readonly clientKey?: Uint8Array;
}

export interface Resolved {
  readonly settings: Settings;
  readonly access: Access;
  readonly health: { readonly port: number; readonly host: string } | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Parses, and reports all defects at once. */
export function resolve(options: WorkerOptions, environment: Environment = process.env): Resolved {
  const servers = serversOf(options.server, environment);
  const access: Access = {
    credential: unlessEmpty(options.credential ?? environment.ROSTERD_CREDENTIAL),
    insecureCredential: options.insecureCredential ?? environment.ROSTERD_INSECURE_CREDENTIAL === "true",
    given: givenCertificates(options),
    files: filesOf(environment),
  };
  const settings: Settings = {
    servers,
    trusted: trustedBy(servers, access),
    namespace: options.namespace ?? "",
    address: options.address ?? "",
    labels: { ...options.labels },
    slots: options.slots ?? Math.max(4, 2 * availableParallelism()),
    drainTimeoutMs: options.drainTimeoutMs ?? 30_000,
    leaveTimeoutMs: options.leaveTimeoutMs ?? 10_000,
    connectTimeoutMs: options.connectTimeoutMs ?? 3_000,
    longestDelayMs: options.longestDelayMs ?? 10_000,
  };
  const { health } = options;
  const defects = [...defectsOf(settings), ...defectsOfAccess(settings, access), ...defectsOfHealth(health)];
  if (defects.length > 0) throw new InvalidOption(defects.join("; "));
  return { settings, access, health: health && { port: health.port, host: health.host ?? "127.0.0.1" } };
}

function serversOf(given: WorkerOptions["server"], environment: Environment): string[] {
  const texts = typeof given === "string" ? [given] : (given ?? []);
  const servers = texts.flatMap(listed);
  if (servers.length > 0) return servers;
  const named = listed(environment.ROSTERD_SERVER ?? "");
  return named.length > 0 ? named : [DEFAULT_SERVER];
}

function unlessEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}

function listed(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

function givenCertificates(options: WorkerOptions): Certificates {
  const found: Record<string, Uint8Array> = {};
  for (const name of Object.keys(FILES) as (keyof typeof FILES)[]) {
    const pem = options[name];
    if (pem !== undefined) found[name] = typeof pem === "string" ? Buffer.from(pem) : pem;
  }
  return found;
}

function filesOf(environment: Environment): Access["files"] {
  const named = Object.entries(FILES).map(([name, variable]) => [name, environment[variable]] as const);
  return Object.fromEntries(named.filter(([, path]) => path !== undefined && path !== ""));
}

// ---- defects

function* defectsOf(settings: Settings): Generator<string> {
  const { slots, labels } = settings;
  if (!Number.isInteger(slots) || slots < 1 || slots > MAX_SLOTS) {
    yield `slots must be 1 to ${MAX_SLOTS}, not ${slots}: give a whole number of them`;
  }
  const texts = Object.entries(labels);
  if (texts.length > 32) yield `labels: at most 32, not ${texts.length}: leave some out`;
  for (const text of texts.flat()) {
    if (Buffer.byteLength(text) > 128) yield `labels: at most 128 bytes each, '${text}' has more: shorten it`;
  }
  for (const name of TIMES) {
    const value = settings[name];
    if (!(value >= 0)) yield `${name} must not be negative, not ${value}: give milliseconds`;
  }
}

function* defectsOfAccess(settings: Settings, access: Access): Generator<string> {
  for (const server of settings.servers) {
    if (server.includes("://") && !/^https?:\/\/[^/]/.test(server)) {
      yield `server '${server}': only http:// and https:// are known: write http://host:port or https://host:port`;
    } else if (hostOf(server) === undefined) {
      yield `server '${server}': it is no address: write host:port, http://host:port or https://host:port`;
    } else if (exposesCredential(access, server)) {
      yield exposed(server);
    }
  }
  if (access.credential !== undefined && !/^[\x21-\x7e]+$/.test(access.credential)) {
    yield "credential: it has characters that no credential has, such as blanks or line ends: give the secret alone";
  }
  try {
    const { clientCertificate, clientKey } = certificates(access);
    if ((clientCertificate === undefined) !== (clientKey === undefined)) {
      yield "clientCertificate and clientKey go together (ROSTERD_CERT, ROSTERD_KEY): give both or none";
    }
  } catch (error) {
    yield (error as Error).message;
  }
}

function* defectsOfHealth(health: WorkerOptions["health"]): Generator<string> {
  if (health !== undefined && !(Number.isInteger(health.port) && health.port >= 0 && health.port <= 65_535)) {
    yield `health.port must be 0 to 65535, not ${health.port}: give a port, 0 for any that is free`;
  }
}

// ---- the credential and the certificates

/** Without a credential and TLS there is no authentication. */
function trustedBy(given: readonly string[], access: Access): Trusted | undefined {
  if (access.credential === undefined && !given.some(secure)) return undefined;
  const vouched = access.given.rootCertificates !== undefined || access.files.rootCertificates !== undefined;
  return { given, vouched };
}

/** Whether others could read the credential on its way to this coordinator. */
export function exposesCredential(access: Access, address: string): boolean {
  return access.credential !== undefined && !access.insecureCredential && !secure(address) && !loopback(address);
}

export function exposed(address: string): string {
  return (
    `server '${address}': the credential would go there in plain text, for all on the way to read: use https://, ` +
    "or say that the network is trusted (insecureCredential, ROSTERD_INSECURE_CREDENTIAL=true)"
  );
}

/** The current ones: renewed ones are used from the next connection on. */
export function certificates(access: Access): Certificates {
  const found: Record<string, Uint8Array> = {};
  for (const [name, path] of Object.entries(access.files)) {
    if (access.given[name as keyof Certificates] !== undefined) continue;
    try {
      found[name] = readFileSync(path);
    } catch (error) {
      const { code = "it fails" } = error as NodeJS.ErrnoException;
      const variable = FILES[name as keyof typeof FILES];
      throw new InvalidOption(`${variable}=${path} cannot be read: ${code}: name a PEM file`);
    }
  }
  return { ...found, ...access.given };
}
