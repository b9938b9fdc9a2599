/** Shared code of all fences. */

/** What a fence needs from a run; a `Run` has all of it. */
export interface Guarded {
  readonly job: string;
  readonly item: number;
  readonly token: bigint;
}

/** The store has seen a higher token: another run of the item took this one's place, and nothing was written. */
export class Fenced extends Error {
  static {
    this.prototype.name = "Fenced";
  }

  constructor(
    /** Which write was refused. */
    readonly what: string,
    readonly token: bigint,
    /** The token that the store has seen; undefined: unknown. */
    readonly seen: bigint | undefined,
  ) {
    const than = seen === undefined ? "a higher one was seen" : `token ${String(seen)} was seen`;
    super(`${what}: token ${String(token)} came too late, ${than}: another run of the item took this one's place`);
  }
}
