package io.rosterd.client.internal.machine;

import io.rosterd.v1.Registered;
import io.rosterd.v1.Welcome;
import java.util.TreeMap;

/**
 * The worker's lease: until when it may assume that no other worker runs its items.
 *
 * <p>It counts from when the last acknowledged heartbeat (at first the Hello) was <em>sent</em>; the coordinator counts from when it
 * received it, which is later. So no two clocks need to agree.
 */
final class Lease {
    private static final long DEFAULT_LENGTH = Times.millis(5_000);
    private static final long DEFAULT_INTERVAL = Times.millis(1_000);
    private static final long DEFAULT_STOP_BUDGET = Times.millis(500);
    /** How much faster than ours a coordinator's clock may run: one part in this many. */
    private static final long DRIFT = 200;

    private long length = DEFAULT_LENGTH;
    private long interval = DEFAULT_INTERVAL;
    private long stopBudget = DEFAULT_STOP_BUDGET;
    // The shortest lease and interval that a job has requested. It never grows back under one identity: the coordinator
    // uses what the heartbeats state, and would mark dead a worker that assumes more.
    private long agreedLength = Times.NEVER;
    private long agreedInterval = Times.NEVER;
    private boolean held;
    private long since;
    private long sequence;
    private final TreeMap<Long, Long> sent = new TreeMap<>();

    long length() {
        return Math.min(length, agreedLength);
    }

    long interval() {
        return Math.min(Math.min(interval, agreedInterval), length() / 3);
    }

    /** How long a stream may be silent before the worker abandons it. */
    long patience() {
        return length() * 2 / 3;
    }

    /** When runs must stop; long ago if there is no lease. */
    long stopsAt() {
        if (!held) return Times.LONG_AGO;
        // A quarter of a short lease, so that one heartbeat may get lost.
        long budget = Math.min(stopBudget, length() / 4);
        return since + length() - length() / DRIFT - budget;
    }

    boolean valid(long boot) {
        return boot < stopsAt();
    }

    /** Heartbeats of an abandoned stream are no longer acknowledged. */
    void beginStream() {
        sequence = 0;
        sent.clear();
    }

    void welcomed(long helloSent, Welcome welcome, boolean sameIdentity) {
        length = orElse(Times.nanos(welcome.getLease()), DEFAULT_LENGTH);
        interval = orElse(Times.nanos(welcome.getHeartbeatInterval()), DEFAULT_INTERVAL);
        stopBudget = welcome.hasStopBudget() ? Math.max(0, Times.nanos(welcome.getStopBudget())) : DEFAULT_STOP_BUDGET;
        if (!sameIdentity) {
            agreedLength = Times.NEVER;
            agreedInterval = Times.NEVER;
        }
        since = sameIdentity && held ? Math.max(since, helloSent) : helloSent;
        held = true;
    }

    void agreed(Registered registered) {
        long asked = Times.nanos(registered.getLease());
        if (asked <= 0) return;
        agreedLength = Math.min(agreedLength, asked);
        agreedInterval = Math.min(agreedInterval, orElse(Times.nanos(registered.getHeartbeatInterval()), asked / 3));
    }

    /** The number of a heartbeat that is sent now. */
    long heartbeat(long boot) {
        sequence++;
        sent.put(sequence, boot);
        return sequence;
    }

    /** When the heartbeat was sent that renews the lease; null: it was not sent, or was acknowledged before. */
    Long acknowledged(long number) {
        Long at = sent.get(number);
        if (at == null || !held) return null;
        since = Math.max(since, at);
        sent.headMap(number, true).clear();
        return at;
    }

    private static long orElse(long given, long otherwise) {
        return given > 0 ? given : otherwise;
    }
}
