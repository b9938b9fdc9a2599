// A small reverse proxy that serves a coordinator under a path prefix, like nginx or an ingress: it strips the prefix.
import { createServer, request, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

export class Proxy {
  #server: Server | undefined;

  /** `prefix`: without a trailing slash. Returns its address, with the prefix. */
  async start(target: string, prefix: string): Promise<string> {
    const to = new URL(target);
    const server = createServer((incoming, outgoing) => {
      const path = incoming.url ?? '/';
      if (path !== prefix && !path.startsWith(`${prefix}/`)) {
        outgoing.writeHead(404).end('outside of the prefix');
        return;
      }
      const forwarded = request(
        {
          host: to.hostname,
          port: to.port,
          method: incoming.method,
          path: path.slice(prefix.length) || '/',
          headers: incoming.headers,
        },
        (answer) => {
          outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
          outgoing.flushHeaders();
          answer.pipe(outgoing);
        },
      );
      forwarded.on('error', () => outgoing.destroy());
      outgoing.on('close', () => forwarded.destroy());
      incoming.pipe(forwarded);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.#server = server;
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`;
  }

  stop(): void {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }
}
