/** Which coordinator to try next, and when. */

import { mayLearn, secure, type Trusted } from "./hosts.js";

const FIRST_DELAY = 200;
/** Of so many addresses that are passed over it is kept in mind that it was said. */
const MOST_PASSED_OVER = 100;

/** A number from 0 to 1, by chance. */
export type Chance = () => number;

/** The given coordinators, then those that the last Welcome named. */
export class Route {
  readonly #given: readonly string[];
  readonly #trusted: Trusted | undefined;
  /** Of these it was said. */
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

  /** Those that are passed over, where that is new. */
  learn(addresses: readonly string[]): readonly string[] {
    const current = this.#addresses[this.#position];
    // The credential that went over TLS so far goes nowhere in the clear.
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

  /** How long to wait after this loss: the first one is met at once. */
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
