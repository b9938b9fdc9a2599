/** Which coordinator to try next, and when. */

import { mayLearn, secure, type Trusted } from "./hosts.js";

const FIRST_DELAY = 200;
/** For how many skipped addresses the worker remembers that it logged them. */
const MOST_PASSED_OVER = 100;

/** A random number from 0 to 1. */
export type Chance = () => number;

/** The configured coordinators, then those that the last Welcome named. */
export class Route {
  readonly #given: readonly string[];
  readonly #trusted: Trusted | undefined;
  /** The skipped addresses that were logged. */
  readonly #passedOver = new Set<string>();
  #addresses: readonly string[];
  readonly #chance: Chance;
  #position = -1;
  // Since the start, or since a stream that has proved itself.
  #losses = 0;

  constructor(given: readonly string[], trusted: Trusted | undefined, chance: Chance) {
    if (given.length === 0) throw new Error("no coordinator is given");
    this.#given = given;
    this.#trusted = trusted;
    this.#addresses = [...new Set(given)];
    this.#chance = chance;
  }

  get addresses(): readonly string[] {
    return this.#addresses;
  }

  /** The newly skipped addresses. */
  learn(addresses: readonly string[]): readonly string[] {
    const current = this.#addresses[this.#position];
    // A credential that was only sent over TLS is never sent in the clear.
    const tls = this.#given.every(secure);
    const learned = addresses.filter((address) => address !== "").map((address) => complete(address, tls));
    const wanted = (address: string) =>
      this.#given.includes(address) || ((secure(address) || !tls) && mayLearn(this.#trusted, address));
    this.#addresses = [...new Set([...this.#given, ...learned.filter(wanted)])];
    this.#position = current === undefined ? -1 : this.#addresses.indexOf(current);
    const fresh = (address: string) => !wanted(address) && !this.#passedOver.has(address);
    const passedOver = [...new Set(learned.filter(fresh))].slice(0, MOST_PASSED_OVER - this.#passedOver.size);
    for (const address of passedOver) this.#passedOver.add(address);
    return passedOver;
  }

  /** The next coordinator in turn. */
  take(): string {
    this.#position = (this.#position + 1) % this.#addresses.length;
    return this.#addresses[this.#position] ?? "";
  }

  /** How long to wait after this loss; after the first one, not at all. */
  lost(longest: number): number {
    this.#losses += 1;
    if (this.#losses === 1) return 0;
    const full = Math.min(longest, FIRST_DELAY * 2 ** Math.min(this.#losses - 2, 16));
    return full * (0.5 + 0.5 * this.#chance());
  }

  /** The stream has proved itself. */
  good(): void {
    this.#losses = 0;
  }
}

function complete(address: string, tls: boolean): string {
  return address.includes("://") || !tls ? address : `https://${address}`;
}
