/**
 * How much longer a Trigger was on its way than the fastest one of its stream.
 *
 * The wait in a Trigger counts from when it was sent, so its network delay is added to the wait; in a burst that is
 * some milliseconds for the last ones. The fire's time follows the coordinator's wall clock. On our own clock, the sum
 * of the arrival and the wait differs from the fire's time by a constant plus the delay; the fastest Trigger shows the
 * constant. Wall clocks are never compared.
 */

/** A coordinator's wall clock that was set back looks like a long delay: the correction is at most this. */
const MAX_CORRECTION = 5;
/** The shortest delay is measured again after this. */
const MEASURED_FOR = 10_000;

export class OneWayDelay {
  // Our clock minus the coordinator's wall clock, for the fastest Trigger, and when it arrived.
  #best: { offset: number; at: number } | undefined;

  /** A new stream has delays of its own. */
  forget(): void {
    this.#best = undefined;
  }

  /**
   * How long to keep a Trigger that arrived at `boot`; `fire` is its scheduled time, undefined: the Trigger has none.
   */
  remainingWait(boot: number, fire: number | undefined, startsIn: number): number {
    if (fire === undefined) return startsIn;
    const offset = boot + startsIn - fire;
    let best = this.#best;
    if (best === undefined || offset < best.offset || boot - best.at >= MEASURED_FOR) {
      best = this.#best = { offset, at: boot };
    }
    return Math.max(0, startsIn - Math.min(offset - best.offset, MAX_CORRECTION));
  }
}
