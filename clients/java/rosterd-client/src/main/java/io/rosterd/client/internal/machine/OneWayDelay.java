package io.rosterd.client.internal.machine;

import java.time.Instant;

/**
 * How much longer a Trigger was on its way than the fastest one.
 *
 * <p>A Trigger's wait counts from when it was sent, so its delay adds to every wait: in a burst, some milliseconds for the last
 * ones. Its fire time less its wait is when it was sent, by the coordinator's wall clock. From there to its arrival on our own
 * clock is the same for all Triggers of a stream, except for their delays. Wall clocks are never compared.
 */
final class OneWayDelay {
    /** A coordinator's wall clock that was set back looks like a long delay: the correction is at most this. */
    private static final long MAX_CORRECTION = Times.millis(5);
    /** The shortest delay is measured again after this. */
    private static final long MEASURED_FOR = Times.millis(10_000);

    private boolean known;
    private long least;
    private long measuredAt;

    /** A new stream has delays of its own. */
    void forget() {
        known = false;
    }

    /** How long to keep a Trigger that came at {@code boot}; fire null: the Trigger has no fire time. */
    long remainingWait(long boot, Instant fire, long startsIn) {
        if (fire == null) return startsIn;
        long offset = boot + startsIn - (fire.getEpochSecond() * 1_000_000_000L + fire.getNano());
        if (!known || offset < least || boot - measuredAt >= MEASURED_FOR) {
            known = true;
            least = offset;
            measuredAt = boot;
        }
        return Math.max(0, startsIn - Math.min(offset - least, MAX_CORRECTION));
    }
}
