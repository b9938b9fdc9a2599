/** The address of this machine that faces a coordinator. */

import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { hostname } from "node:os";
import { hostOf } from "./options.js";

const PATIENCE = 3_000;

/** The host's name if there is no such address. */
export async function ownAddress(server: string): Promise<string> {
  try {
    const { address, family } = await lookup(hostOf(server) ?? "");
    return await facing(address, family === 6);
  } catch {
    return hostname();
  }
}

function facing(address: string, six: boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createSocket({ type: six ? "udp6" : "udp4", signal: AbortSignal.timeout(PATIENCE) });
    socket.once("error", (error) => {
      socket.close();
      reject(error);
    });
    // A datagram socket sends nothing here: this only asks for a route.
    socket.connect(9, address, () => {
      const own = socket.address().address;
      socket.close();
      resolve(own);
    });
  });
}
