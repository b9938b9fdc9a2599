package io.rosterd.client;

import java.time.Duration;

/**
 * What metrics are made of. The methods about the worker are called on one thread, apart from heartbeats, those about a run on
 * the run's thread; what they throw is logged, and changes nothing.
 */
public interface WorkerListener {
    /** How an attempt of a run ended here. What the coordinator records may differ: a run that was told to stop says so. */
    enum RunEnd {
        /** The handler returned. */
        RETURNED,
        /** The handler threw. */
        FAILED,
        /** The handler threw {@link CancelledException}, or was interrupted because the run had to stop. */
        CANCELLED
    }

    /**
     * A coordinator welcomed the worker.
     *
     * @param server its address
     * @param instanceId the worker's id under its jobs
     */
    default void attached(String server, String instanceId) {}

    /**
     * The stream to the coordinator was lost. Runs go on.
     *
     * @param server its address
     * @param reason why, for people
     */
    default void detached(String server, String reason) {}

    /**
     * A heartbeat was acknowledged, which renews the lease.
     *
     * @param roundTrip how long after it was sent
     */
    default void leaseRenewed(Duration roundTrip) {}

    /**
     * The handler is about to be called for an attempt.
     *
     * @param run the run
     */
    default void runStarted(Run run) {}

    /**
     * The handler has ended for an attempt.
     *
     * @param run the run
     * @param end how
     * @param duration how long it took
     * @param error what the handler threw; null if it returned
     */
    default void runEnded(Run run, RunEnd end, Duration duration, Throwable error) {}

    /**
     * A trigger came, and the last check before the handler did not let it start.
     *
     * @param run the run
     * @param reason why
     */
    default void runNotStarted(Run run, String reason) {}
}
