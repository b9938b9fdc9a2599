package io.rosterd.client;

/** The code of a job: called once for every run of an item that this worker gets. */
@FunctionalInterface
public interface Handler {
    /**
     * Does the work of one run.
     *
     * @param run the run: its inputs, and methods to report on it
     * @return the run's output, cut to 64 KiB: null for none, maps and lists as JSON, anything else as its
     *     {@link Object#toString() text}
     * @throws Exception if the run failed; it is retried by the job's policy, unless it is a {@link FatalException}
     */
    Object run(Run run) throws Exception;
}
