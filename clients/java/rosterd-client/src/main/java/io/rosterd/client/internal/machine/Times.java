package io.rosterd.client.internal.machine;

import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import java.time.Instant;

/** Times of the protocol as nanoseconds and instants, and back. */
public final class Times {
    /** A time that never comes. */
    public static final long NEVER = Long.MAX_VALUE;
    /** A time before all others. */
    public static final long LONG_AGO = Long.MIN_VALUE;

    private static final long SECOND = 1_000_000_000L;

    private Times() {}

    /** {@return nanoseconds; 0 if it is not set} */
    public static long nanos(Duration duration) {
        long seconds = Math.max(-NEVER / SECOND + 1, Math.min(duration.getSeconds(), NEVER / SECOND - 1));
        return seconds * SECOND + duration.getNanos();
    }

    /** {@return milliseconds as nanoseconds} */
    public static long millis(long millis) {
        return millis * 1_000_000L;
    }

    /** {@return nanoseconds of a duration, saturated} */
    public static long nanos(java.time.Duration duration) {
        return duration.compareTo(java.time.Duration.ofSeconds(NEVER / SECOND)) >= 0 ? NEVER : duration.toNanos();
    }

    /** {@return a later time, at most {@link #NEVER}} */
    public static long after(long time, long length) {
        return length >= NEVER - Math.max(time, 0) ? NEVER : time + length;
    }

    static Duration span(long nanos) {
        return Duration.newBuilder()
                .setSeconds(nanos / SECOND)
                .setNanos((int) (nanos % SECOND))
                .build();
    }

    /** {@return the instant of a timestamp} */
    public static Instant instant(Timestamp timestamp) {
        return Instant.ofEpochSecond(timestamp.getSeconds(), timestamp.getNanos());
    }

    /** {@return the timestamp of an instant} */
    public static Timestamp stamp(Instant instant) {
        return Timestamp.newBuilder()
                .setSeconds(instant.getEpochSecond())
                .setNanos(instant.getNano())
                .build();
    }
}
