/**
 * How late a Trigger came that is to be kept until its time.
 *
 * What it says to wait is counted from when it was sent, so its way is added to every wait; in a burst that is some
 * milliseconds for those behind. Its run's time is by the coordinator's calendar. What the two amount to by our own
 * clock is the same for all Triggers of a stream, but for their ways: who came with the shortest tells how much longer
 * the others took. No calendars are compared.
 */

/** A coordinator's calendar that was set back looks like a long way. So nothing begins sooner than this for it. */
const MOST = 5;
/** And the shortest way is found anew after this. */
const FRESH = 10_000;

export class Transit {
  // Our clock less the coordinator's calendar, by the Trigger that came soonest, and when that was.
  #best: { offset: number; at: number } | undefined;

  /** A new stream has ways of its own. */
  forget(): void {
    this.#best = undefined;
  }

  /** How long to keep a Trigger that came at `boot`; `fire` is its fire's time, undefined: not told. */
  left(boot: number, fire: number | undefined, startsIn: number): number {
    if (fire === undefined) return startsIn;
    const offset = boot + startsIn - fire;
    let best = this.#best;
    if (best === undefined || offset < best.offset || boot - best.at >= FRESH) {
      best = this.#best = { offset, at: boot };
    }
    return Math.max(0, startsIn - Math.min(offset - best.offset, MOST));
  }
}
