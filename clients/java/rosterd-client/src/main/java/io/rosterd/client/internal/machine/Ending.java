package io.rosterd.client.internal.machine;

import com.google.protobuf.ByteString;

/**
 * How one attempt of a run ended.
 *
 * @param kind how
 * @param output what it returned, as text
 * @param error what it threw, as text
 * @param processed how many records it counted
 * @param failed how many failed records it counted
 * @param offset the item's new offset; null: none was set
 */
public record Ending(Kind kind, String output, String error, long processed, long failed, ByteString offset) {
    /** How an attempt ended. */
    public enum Kind {
        /** The handler returned. */
        RETURNED,
        /** It threw. */
        THREW,
        /** It threw, and another attempt would not help. */
        FATAL,
        /** It ended because it had to stop, or chose to. */
        CANCELLED,
        /** The last check, on the thread that was about to call the handler, failed. */
        NOT_BEGUN
    }

    /** {@return an ending without counts and offset} */
    public static Ending of(Kind kind, String output, String error) {
        return new Ending(kind, output, error, 0, 0, null);
    }

    /** {@return what ends a run whose handler was not called} */
    public static Ending notBegun(String error) {
        return of(Kind.NOT_BEGUN, "", error);
    }
}
