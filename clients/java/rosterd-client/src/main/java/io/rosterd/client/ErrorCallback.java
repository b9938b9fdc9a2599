package io.rosterd.client;

/** Is called after an attempt that threw. */
@FunctionalInterface
public interface ErrorCallback {
    /**
     * Called with the run and what it threw.
     *
     * @param run the run
     * @param error what was thrown
     * @throws Exception is logged, and changes nothing
     */
    void accept(Run run, Throwable error) throws Exception;
}
