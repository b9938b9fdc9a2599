package io.rosterd.client.testing;

import java.util.List;
import java.util.Optional;

/**
 * How a run of a test ended.
 *
 * @param outcome what a coordinator would record
 * @param retryable whether another attempt would follow, if the job has more
 * @param output the output that would be recorded
 * @param thrown what the handler threw; null: it returned
 * @param processed how many records it counted
 * @param failed how many failed records it counted
 * @param offset the item's new offset; empty: the handler set none
 * @param progress the progress that it reported
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
     * Progress that a handler reported.
     *
     * @param percent 0 to 100
     * @param message for people
     */
    public record Progress(int percent, String message) {}
}
