package io.rosterd.client.internal.machine;

import io.rosterd.client.RosterdException;
import java.util.List;
import org.slf4j.event.Level;

/** The progress of a leave on the current stream, and its deadline. */
final class Leave {
    /** How long a coordinator may take for Draining or GoodbyeAck once nothing is in flight. */
    private static final long FAREWELL = Times.millis(3_000);
    /** How many runs the answer to a signal names. */
    private static final int MAX_RUNS_NAMED = 5;
    /** Has not happened. */
    private static final long NOT_YET = Times.NEVER;

    private final RosterdException failure;
    private long drainBy;
    private long askedAt = NOT_YET;
    private boolean draining;
    private long goodbyeAt = NOT_YET;
    // When the last run ended.
    private long restAt = NOT_YET;

    Leave(long drainBy, RosterdException failure) {
        this.drainBy = drainBy;
        this.failure = failure;
    }

    /** The error that ends the worker; null: nothing. */
    RosterdException failure() {
        return failure;
    }

    /** When runs must stop. */
    long drainBy() {
        return drainBy;
    }

    boolean saidGoodbye() {
        return goodbyeAt != NOT_YET;
    }

    /** The earliest of several deadlines applies. */
    void sooner(long by) {
        drainBy = Math.min(drainBy, by);
    }

    /** A new stream begins with the DrainRequest again. */
    void newStream() {
        askedAt = NOT_YET;
        draining = false;
        goodbyeAt = NOT_YET;
    }

    /** Whether to send the DrainRequest; marks it as sent. */
    boolean ask(long boot) {
        if (askedAt != NOT_YET) return false;
        askedAt = boot;
        return true;
    }

    void drainingCame() {
        draining = true;
    }

    /** If nothing is in flight: whether to send the Goodbye; marks it as sent. */
    boolean sayGoodbye(long boot) {
        if (!draining || saidGoodbye()) return false;
        goodbyeAt = boot;
        return true;
    }

    void rest(long boot, boolean nothingInFlight) {
        if (!nothingInFlight) restAt = NOT_YET;
        else if (restAt == NOT_YET) restAt = boot;
    }

    /** When to leave without a goodbye. */
    long limit(long leaveTimeout) {
        return Times.after(Math.min(restAt, drainBy), leaveTimeout);
    }

    /** Once nothing is in flight: when to try another coordinator. */
    long farewellBy() {
        if (restAt == NOT_YET) return Times.NEVER;
        if (saidGoodbye()) return goodbyeAt + FAREWELL;
        if (askedAt == NOT_YET || draining) return Times.NEVER;
        return Math.max(askedAt, restAt) + FAREWELL;
    }

    /** The answer to a signal: what the worker waits for, and how to end it immediately. */
    static Effect.Note waitsFor(List<RunKey> runs, long drainTimeout) {
        if (runs.isEmpty()) return new Effect.Note(Level.INFO, "signal received: leaving; nothing is in flight");
        List<String> names =
                runs.stream().limit(MAX_RUNS_NAMED).map(RunKey::toString).toList();
        String list = String.join(", ", names) + (runs.size() > MAX_RUNS_NAMED ? ", …" : "");
        String count = runs.size() == 1 ? "1 run" : runs.size() + " runs";
        return new Effect.Note(
                Level.WARN,
                "signal received: leaving once " + count + " in flight (" + list + ") ended, after "
                        + drainTimeout / 1e9 + " s at the latest; a second signal exits immediately and records them as"
                        + " crashed");
    }
}
