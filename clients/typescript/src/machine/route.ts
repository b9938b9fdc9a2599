/** Which coordinator to try next, and when. */

const FIRST_DELAY = 200;

/** A number from 0 to 1, by chance. */
export type Chance = () => number;

export function secure(address: string): boolean {
  return address.startsWith("https://");
}

/** The given coordinators, then those that the last Welcome named. */
export class Route {
  readonly #given: readonly string[];
  #addresses: readonly string[];
  readonly #chance: Chance;
  #position = -1;
  #attempts = 0;

  constructor(given: readonly string[], chance: Chance) {
    if (given.length === 0) throw new Error("no coordinator is given");
    this.#given = given;
    this.#addresses = [...new Set(given)];
    this.#chance = chance;
  }

  get addresses(): readonly string[] {
    return this.#addresses;
  }

  learn(addresses: readonly string[]): void {
    const current = this.#addresses[this.#position];
    // The credential that went over TLS so far goes nowhere in the clear.
    const tls = this.#given.every(secure);
    const learned = addresses.filter((address) => address !== "").map((address) => complete(address, tls));
    const wanted = learned.filter((address) => secure(address) || !tls);
    this.#addresses = [...new Set([...this.#given, ...wanted])];
    this.#position = current === undefined ? -1 : this.#addresses.indexOf(current);
  }

  /** The next coordinator in turn; counts as an attempt. */
  take(): string {
    this.#attempts += 1;
    this.#position = (this.#position + 1) % this.#addresses.length;
    return this.#addresses[this.#position] ?? "";
  }

  /** How long to wait before the next attempt: the first one after a good stream is immediate. */
  delay(longest: number): number {
    if (this.#attempts === 0) return 0;
    const full = Math.min(longest, FIRST_DELAY * 2 ** Math.min(this.#attempts - 1, 16));
    return full * (0.5 + 0.5 * this.#chance());
  }

  /** The stream has proved itself. */
  good(): void {
    this.#attempts = 0;
  }
}

function complete(address: string, tls: boolean): string {
  return address.includes("://") || !tls ? address : `https://${address}`;
}
