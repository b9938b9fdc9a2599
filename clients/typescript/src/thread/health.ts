/**
 * Health for Kubernetes, served in the thread of the stream: a handler that keeps its own thread busy does not make the
 * process look dead.
 */

import { createServer, type Server } from "node:http";

export interface Probe {
  readonly port: number;
  readonly host: string;
  /** The worker has not ended. */
  readonly alive: () => boolean;
  /** It is attached, its lease is valid, and it is not leaving. */
  readonly ready: () => boolean;
  readonly listening: (port: number) => void;
  readonly failed: (error: Error) => void;
}

export function serveHealth(probe: Probe): Server {
  const server = createServer((request, response) => {
    const ask = request.url === "/healthz" ? probe.alive : request.url === "/readyz" ? probe.ready : undefined;
    const fine = ask?.() ?? false;
    response.writeHead(ask === undefined ? 404 : fine ? 200 : 503, { "content-type": "text/plain" });
    response.end(ask === undefined ? "not found\n" : fine ? "ok\n" : "not ready\n");
  });
  server.maxConnections = 32;
  server.requestTimeout = 1_000;
  server.headersTimeout = 1_000;
  server.on("error", probe.failed);
  server.listen(probe.port, probe.host, () => {
    const address = server.address();
    if (typeof address === "object" && address !== null) probe.listening(address.port);
  });
  return server;
}
