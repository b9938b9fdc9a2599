package io.rosterd.client;

import java.util.List;

/**
 * A job that fetches and processes. If the job streams, it does so again until {@link #fetch} returns nothing; it ends early,
 * between two batches, when the worker leaves.
 *
 * @param <T> the type of a record
 */
public interface Dataflow<T> {
    /**
     * Fetches the next batch.
     *
     * @param run the run
     * @return the records; null or an empty list if nothing is left
     * @throws Exception if the run failed
     */
    List<T> fetch(Run run) throws Exception;

    /**
     * Processes a batch. Its size is counted as processed, unless this method calls {@link Run#count} itself.
     *
     * @param run the run
     * @param data what {@link #fetch} returned
     * @throws Exception if the run failed
     */
    void process(Run run, List<T> data) throws Exception;

    /** {@return this job as the handler that a worker calls} */
    default Handler asHandler() {
        return run -> {
            while (true) {
                List<T> data = fetch(run);
                if (data == null || data.isEmpty()) return null;
                long processed = run.processed();
                long failed = run.failed();
                process(run, data);
                if (run.processed() == processed && run.failed() == failed) run.count(data.size(), 0);
                if (!run.streaming() || run.leaving()) return null;
                run.throwIfCancelled();
            }
        };
    }
}
