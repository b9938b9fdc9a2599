// Names of instances, short enough for a cell, and a color that is the same everywhere.

/** `{address}@-@{unique}`: address and unique part. */
export function split(instance: string): { address: string; unique: string } {
  const at = instance.lastIndexOf('@-@');
  return at < 0
    ? { address: instance, unique: '' }
    : { address: instance.slice(0, at), unique: instance.slice(at + 3) };
}

/** The address and the end of the unique part: enough to distinguish neighbors. */
export function short(instance: string): string {
  const { address, unique } = split(instance);
  return unique ? `${address} ${unique.slice(-4)}` : address;
}

/** How many colors the style sheet has for owners. */
export const HUES = 10;

/** Assigns them to instances in the order in which they are first seen, so that a few instances never share one. */
export class Palette {
  #known = new Map<string, number>();

  of(instance: string): number {
    let hue = this.#known.get(instance);
    if (hue === undefined) {
      hue = this.#known.size % HUES;
      this.#known.set(instance, hue);
    }
    return hue;
  }
}
