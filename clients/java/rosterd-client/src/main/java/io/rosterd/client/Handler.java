package io.rosterd.client;

/** The code of a job: called once for every run of an item that this worker is given. */
@FunctionalInterface
public interface Handler {
    /**
     * Does the work of one run.
     *
     * @param run what to do, and what to say about it
     * @return the run's output, cut to 64 KiB: null for none, maps and lists as JSON, anything else as its
     *     {@link Object#toString() text}
     * @throws Exception if the run failed; it is tried again if the job says so, unless it is a {@link FatalException}
     */
    Object run(Run run) throws Exception;
}
