package io.rosterd.client.internal.machine;

import com.google.protobuf.ByteString;
import io.rosterd.client.CancelReason;
import io.rosterd.v1.RunCompleted;
import io.rosterd.v1.RunOutcome;
import io.rosterd.v1.Trigger;
import java.time.Instant;
import java.util.Map;

/** One run in flight, and what is reported about it. */
final class InFlightRun {
    /** The phases of a run. */
    enum Phase {
        /** Its time has not come. */
        WAITING,
        /** Its handler is called. */
        IN_USER_CODE,
        /** A failed attempt waits for the next one. */
        BETWEEN_ATTEMPTS,
        /** Only the report is left. */
        REPORTED
    }

    final RunKey key;
    final Trigger trigger;
    final String instanceId;
    final Map<String, String> props;
    /** The stream of its Trigger. */
    final long stream;

    Phase phase = Phase.IN_USER_CODE;
    int attempt;
    /** The offset that the next attempt gets. */
    ByteString offset;

    /** Why it must stop; null: it need not. */
    CancelReason stop;
    /** The offset that it set; null: none. */
    ByteString newOffset;

    long processed;
    long failed;
    /** When the first attempt began; null: none has. */
    Instant startedAt;
    /** When the current attempt began, until that is reported. */
    Instant toldFrom;

    long timeoutAt = Times.NEVER;
    Instant deadline;
    /** When it begins (waiting), or begins again (between attempts). */
    long nextAt;

    int percent;
    String message = "";
    /** The offset that the current attempt has set; null: none. */
    ByteString currentOffset;
    /** When it set the first one. */
    long offsetSetAt;
    /** When progress went out last. */
    long progressSentAt = Times.LONG_AGO;
    /** When it goes out next; never: nothing is pending. */
    long progressAt = Times.NEVER;

    RunCompleted report;
    /** The report replaces one that was refused. */
    boolean replaces;

    InFlightRun(RunKey key, Trigger trigger, String instanceId, Map<String, String> props, long stream) {
        this.key = key;
        this.trigger = trigger;
        this.instanceId = instanceId;
        this.props = props;
        this.stream = stream;
        attempt = Math.max(1, trigger.getAttempt());
        offset = trigger.getOffset();
    }

    RunOutcome outcomeOf(Ending ending) {
        boolean neverBegan = ending.kind() == Ending.Kind.NOT_BEGUN && startedAt == null;
        if (neverBegan && (stop == null || stop == CancelReason.LEASE_EXPIRED || stop == CancelReason.FENCED)) {
            return RunOutcome.RUN_OUTCOME_NOT_STARTED;
        }
        return stop == null ? outcomeOf(ending.kind()) : outcomeOf(stop);
    }

    private static RunOutcome outcomeOf(Ending.Kind kind) {
        return switch (kind) {
            case RETURNED -> RunOutcome.RUN_OUTCOME_SUCCEEDED;
            case THREW, FATAL -> RunOutcome.RUN_OUTCOME_FAILED;
            case CANCELLED -> RunOutcome.RUN_OUTCOME_CANCELLED;
            // A later attempt that could not begin: the handler has been called for this run before.
            case NOT_BEGUN -> RunOutcome.RUN_OUTCOME_ABORTED;
        };
    }

    private static RunOutcome outcomeOf(CancelReason reason) {
        return switch (reason) {
            case OPERATOR -> RunOutcome.RUN_OUTCOME_CANCELLED;
            case TIMED_OUT -> RunOutcome.RUN_OUTCOME_TIMED_OUT;
            case LEAVING -> RunOutcome.RUN_OUTCOME_HANDED_BACK;
            case LEASE_EXPIRED, FENCED -> RunOutcome.RUN_OUTCOME_ABORTED;
            // Such a run is not reported.
            case MARKED_DEAD -> RunOutcome.RUN_OUTCOME_ABORTED;
        };
    }

    void report(Instant now, RunOutcome outcome, String error, String output) {
        RunCompleted.Builder made = RunCompleted.newBuilder()
                .setRun(key.ref())
                .setOutcome(outcome)
                .setError(Texts.shorten(error, Texts.MAX_ERROR))
                .setOutput(Texts.shorten(output, Texts.MAX_OUTPUT))
                .setProcessed(processed)
                .setFailed(failed)
                .setEndedAt(Times.stamp(now))
                .setAttempt(attempt);
        if (newOffset != null) made.setOffset(newOffset);
        if (startedAt != null) made.setStartedAt(Times.stamp(startedAt));
        report = made.build();
    }

    /** Nothing of a refused report was written: without another one the run would stay in the coordinator's records. */
    void reportInstead(String why) {
        String refused = report.getOutcome().name().substring("RUN_OUTCOME_".length());
        report = report.toBuilder()
                .setOutcome(RunOutcome.RUN_OUTCOME_FAILED)
                .setError(Texts.shorten("the report " + refused + " was refused: " + why, Texts.MAX_ERROR))
                .clearOutput()
                .clearProcessed()
                .clearFailed()
                .clearOffset()
                .build();
        replaces = true;
    }

    /** The pause after the current attempt has failed. */
    long pause() {
        long longest = trigger.hasRetryBackoffMax() ? Times.nanos(trigger.getRetryBackoffMax()) : Times.NEVER;
        double factor = Math.pow(Math.max(trigger.getRetryBackoffMultiplier(), 1), attempt - 1);
        double pause = Math.max(0, Times.nanos(trigger.getRetryBackoff())) * factor;
        return pause >= longest ? Math.max(0, longest) : (long) pause;
    }
}
