package io.rosterd.client.internal.driver;

import io.rosterd.client.internal.machine.Times;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** What threads of user code see of the machine at any moment, without asking its thread. */
public final class LeaseView {
    /** How long a thread of user code waits for the driver, before it assumes that a lease has expired. */
    private static final long PATIENCE = 25_000_000L;
    /** This long after the loop resumes, it has read the socket, and the driver has caught up. */
    private static final long CAUGHT_UP_MILLIS = Driver.CATCH_UP_MILLIS + 1;

    private final BootClock clock;
    private final ScheduledExecutorService loop;
    private volatile long stopsAt = Times.LONG_AGO;
    private volatile long liveStream;
    private volatile boolean leaving;
    // The lease that was found expired, so that no thread waits for it again.
    private volatile long foundOver = Times.NEVER;

    LeaseView(BootClock clock, ScheduledExecutorService loop) {
        this.clock = clock;
        this.loop = loop;
    }

    void publish(long leaseStopsAt, long stream) {
        stopsAt = leaseStopsAt;
        liveStream = stream;
    }

    void setLeaving() {
        leaving = true;
    }

    /** {@return whether the worker is leaving} */
    public boolean leaving() {
        return leaving;
    }

    /** {@return the attached stream; 0: none} */
    public long liveStream() {
        return liveStream;
    }

    /** {@return whether the lease is valid, by a quick check} */
    public boolean valid() {
        return clock.boot() < stopsAt;
    }

    /**
     * Whether user code must stop. When a frozen process resumes, an acknowledgement that waited in the socket still
     * counts: so the thread that reads it gets a moment, in which no user code goes on.
     *
     * @return true: the lease has expired
     */
    public boolean over() {
        if (valid()) return false;
        if (foundOver == stopsAt) return true;
        awaitDriver();
        long looked = stopsAt;
        if (clock.boot() < looked) return false;
        foundOver = looked;
        return true;
    }

    private void awaitDriver() {
        FutureTask<Void> caughtUp = new FutureTask<>(() -> null);
        try {
            loop.execute(() -> loop.schedule(caughtUp, CAUGHT_UP_MILLIS, TimeUnit.MILLISECONDS));
            caughtUp.get(PATIENCE, TimeUnit.NANOSECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } catch (TimeoutException | ExecutionException | RejectedExecutionException late) {
            // Then decide by what is known.
        }
    }
}
