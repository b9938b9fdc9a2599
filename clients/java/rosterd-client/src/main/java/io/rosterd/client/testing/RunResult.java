package io.rosterd.client.testing;

import java.util.List;
import java.util.Optional;

/**
 * How a run of a test ended.
 *
 * @param outcome what a coordinator would record
 * @param retryable whether another attempt would follow, if the job has more
 * @param output what would be recorded of what the handler returned
 * @param thrown what the handler threw; null: it returned
 * @param processed how many records it counted
 * @param failed how many failed records it counted
 * @param offset how far the item has come; empty: the handler did not say
 * @param progress what it said on the way
 */
public record RunResult(
        Outcome outcome,
        boolean retryable,
        String output,
        Throwable thrown,
        long processed,
        long failed,
        Optional<byte[]> offset,
        List<Progress> progress) {
    /** What a coordinator would record. */
    public enum Outcome {
        /** The handler returned. */
        SUCCEEDED,
        /** It threw. */
        FAILED,
        /** The run was cancelled. */
        CANCELLED
    }

    /**
     * What a handler said about its progress.
     *
     * @param percent 0 to 100
     * @param message for people
     */
    public record Progress(int percent, String message) {}
}
