package io.rosterd.client;

/** Is called before or after an attempt of a run. */
@FunctionalInterface
public interface RunCallback {
    /**
     * Called with the run.
     *
     * @param run the run
     * @throws Exception if the attempt has failed
     */
    void accept(Run run) throws Exception;
}
