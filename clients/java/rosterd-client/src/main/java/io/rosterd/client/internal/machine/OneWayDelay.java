package io.rosterd.client.internal.machine;

import java.time.Instant;

/**
 * How much longer a Trigger was on its way than the quickest one.
 *
 * <p>What a Trigger says to wait counts from when it was sent, so its way is added to every wait; in a burst that is some
 * milliseconds for those at its end. The run's time is by the coordinator's calendar. The sum of both on our own clock is the same
 * for all Triggers of a stream, except for their ways. No calendars are compared.
 */
final class OneWayDelay {
    /** A coordinator's calendar that was set back looks like a long way: nothing begins sooner than this for it. */
    private static final long MOST = Times.millis(5);
    /** The shortest way is measured anew after this. */
    private static final long FRESH = Times.millis(10_000);

    private boolean known;
    private long least;
    private long measuredAt;

    /** A new stream has ways of its own. */
    void forget() {
        known = false;
    }

    /** How long to keep a Trigger that came at {@code boot}; fire null: the time of its fire was not told. */
    long left(long boot, Instant fire, long startsIn) {
        if (fire == null) return startsIn;
        long offset = boot + startsIn - (fire.getEpochSecond() * 1_000_000_000L + fire.getNano());
        if (!known || offset < least || boot - measuredAt >= FRESH) {
            known = true;
            least = offset;
            measuredAt = boot;
        }
        return Math.max(0, startsIn - Math.min(offset - least, MOST));
    }
}
