/** TLS, certificates of one's own and credentials against the real coordinator. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import type { WorkerOptions } from "../../src/index.js";
import { BINARY, RealCoordinator } from "../tools/real.js";
import { Lines, until, Working, workerOf } from "../tools/workers.js";

const folder = mkdtempSync(join(tmpdir(), "rosterd-tls-"));
const file = (name: string) => join(folder, name);
const credentials = ["--credentials", file("credentials.toml")];
const tls = ["--tls-cert", file("server.pem"), "--tls-key", file("server.key")];
const started: RealCoordinator[] = [];
let secret = "";
let working: Working | undefined;

const openssl = (...command: string[]) => execFileSync("openssl", command, { stdio: "pipe" });

function certificate(name: string, signedBy: string, subject: string): void {
  const request = ["req", "-newkey", "rsa:2048", "-nodes", "-keyout", file(`${name}.key`), "-out", file(`${name}.csr`)];
  openssl(...request, "-subj", `/CN=${name}`, "-addext", subject);
  const ca = ["-CA", file(`${signedBy}.pem`), "-CAkey", file(`${signedBy}.key`), "-CAcreateserial"];
  const out = ["-copy_extensions", "copy", "-days", "2", "-out", file(`${name}.pem`)];
  openssl("x509", "-req", "-in", file(`${name}.csr`), ...ca, ...out);
}

before(() => {
  for (const name of ["ca", "other"]) {
    const out = ["-keyout", file(`${name}.key`), "-out", file(`${name}.pem`)];
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", `/CN=${name}`, ...out);
  }
  certificate("server", "ca", "subjectAltName=DNS:localhost,IP:127.0.0.1");
  certificate("client", "ca", "subjectAltName=DNS:worker.example");
  const add = (...more: string[]) =>
    execFileSync(BINARY, ["credentials", "add", "--role", "worker", "--file", file("credentials.toml"), ...more], {
      encoding: "utf8",
    });
  secret = add("tests").trim().split("\n").at(-1) ?? "";
  add("--certificate", "dns:worker.example", "certified");
});

afterEach(async () => {
  working?.worker.stop(0);
  await working?.over.catch(() => undefined);
  working = undefined;
  for (const coordinator of started.splice(0)) await coordinator.stop();
});

after(() => {
  rmSync(folder, { recursive: true });
});

async function serve(...flags: string[]): Promise<RealCoordinator> {
  const coordinator = new RealCoordinator(flags);
  started.push(coordinator);
  await coordinator.start();
  return coordinator;
}

function work(server: string, options: WorkerOptions = {}): Lines {
  const logger = new Lines();
  const worker = workerOf(server, { logger, ...options });
  working = new Working(worker.job("secured", () => undefined, { config: { items: 1 } }));
  return logger;
}

const registered = (lines: Lines) =>
  until(() => lines.all.some((line) => line.includes("job secured: ")), "the worker is registered");

test("a secret over TLS", async () => {
  const { address } = await serve(...tls, ...credentials);
  const rootCertificates = readFileSync(file("ca.pem"));
  await registered(work(`https://${address}`, { credential: secret, rootCertificates }));
});

test("a certificate of the worker's own", async () => {
  const { address } = await serve(...tls, ...credentials, "--tls-client-ca", file("ca.pem"));
  const [rootCertificates, clientCertificate, clientKey] = ["ca.pem", "client.pem", "client.key"].map((name) =>
    readFileSync(file(name), "utf8"),
  );
  await registered(work(`https://${address}`, { rootCertificates, clientCertificate, clientKey }));
});

const REJECTED: [string, () => WorkerOptions, RegExp][] = [
  ["an authority that is unknown", () => ({ rootCertificates: readFileSync(file("other.pem")) }), /ROSTERD_CA/],
  ["no credential", () => ({ rootCertificates: readFileSync(file("ca.pem")) }), /credential/],
  [
    "a credential that is not valid",
    () => ({ rootCertificates: readFileSync(file("ca.pem")), credential: `${secret.slice(0, -4)}AAAA` }),
    /not valid|credential/,
  ],
];

for (const [name, options, message] of REJECTED) {
  test(`a worker is rejected with the remedy for ${name}`, async () => {
    const { address } = await serve(...tls, ...credentials);
    work(`https://${address}`, options());
    await assert.rejects(working!.over, (error: Error) => {
      assert.equal(error.name, "Rejected", String(error));
      assert.match(error.message, message);
      return !error.message.includes(secret);
    });
  });
}

test("a coordinator that does not speak TLS is named as such", async () => {
  const { address } = await serve();
  work(`https://${address}`);
  await assert.rejects(working!.over, { name: "Rejected", message: /does not speak TLS: use http:/ });
});
