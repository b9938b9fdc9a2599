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
  // Since the start, or since a stream that has proved itself.
  #losses = 0;

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
