package io.rosterd.client;

import java.time.Duration;

/**
 * Hooks for metrics. Methods about the worker are called on one thread, independent of heartbeats, methods about a run
 * on the run's thread. What they throw is logged, and changes nothing.
 */
public interface WorkerListener {
    /**
     * How an attempt of a run ended here. The coordinator's record may differ, for example if the run was told to stop.
     */
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
     * A trigger arrived, and the last check before the handler did not let the run start.
     *
     * @param run the run
     * @param reason why
     */
    default void runNotStarted(Run run, String reason) {}
}
