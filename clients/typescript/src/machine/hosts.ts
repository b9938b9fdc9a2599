/** Hosts of addresses, and to which coordinators the worker connects that only a Welcome has named. */

/**
 * An attacker that can write the store, or impersonates a coordinator, can name any address, and any address has a
 * certificate of some authority. So with a credential, or over TLS, the worker connects only to these.
 */
export interface Trusted {
  /** Addresses whose hosts are trusted. */
  readonly given: readonly string[];
  /** And those that the user's own authorities certify. */
  readonly vouched: boolean;
}

export function secure(address: string): boolean {
  return address.startsWith("https://");
}

export function hostOf(address: string): string | undefined {
  try {
    const { hostname } = new URL(address.includes("://") ? address : `http://${address}`);
    return hostname.replace(/^\[|\]$/g, "");
  } catch {
    return undefined;
  }
}

export function loopback(address: string): boolean {
  const host = hostOf(address);
  if (host === undefined) return false;
  // The URL parser writes all forms of an address in one way: 127.1 as 127.0.0.1, ::ffff:127.0.0.1 as ::ffff:7f00:1.
  return (
    host === "localhost" ||
    host === "::1" ||
    /^127(\.\d+){3}$/.test(host) ||
    /^::ffff:7f[0-9a-f]{2}:[0-9a-f]+$/.test(host)
  );
}

/** Without `trusted` any address may be learned. */
export function mayLearn(trusted: Trusted | undefined, address: string): boolean {
  if (trusted === undefined) return true;
  const host = hostOf(address);
  if (host === undefined) return false;
  const same = (server: string) => hostOf(server) === host || (loopback(server) && loopback(address));
  return trusted.given.some(same) || (secure(address) && trusted.vouched);
}
