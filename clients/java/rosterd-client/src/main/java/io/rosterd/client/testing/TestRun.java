package io.rosterd.client.testing;

import io.rosterd.client.CancelReason;
import io.rosterd.client.CancelledException;
import io.rosterd.client.Dataflow;
import io.rosterd.client.FatalException;
import io.rosterd.client.Handler;
import io.rosterd.client.JobOptions;
import io.rosterd.client.Run;
import io.rosterd.client.Source;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A run that a test makes up, and may cancel. */
public final class TestRun implements Run {
    private static final int MAX_OFFSET = 64 * 1024;
    private static final String INSTANCE = "127.0.0.1@-@test";

    private final Builder given;
    private final List<RunResult.Progress> progress = new ArrayList<>();
    private final List<Runnable> actions = new ArrayList<>();
    private CancelReason cancelled;
    private Thread thread;
    private byte[] newOffset;
    private long processed;
    private long failed;

    private TestRun(Builder given) {
        this.given = given;
        cancelled = given.cancelled;
    }

    /** {@return a builder} */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Calls a handler once.
     *
     * @param handler the handler
     * @return how it ended
     */
    public RunResult call(Handler handler) {
        return call(handler, JobOptions.none());
    }

    /**
     * Calls a handler once with its callbacks, as a worker would.
     *
     * @param handler the handler
     * @param options the job's
     * @return how it ended
     */
    public RunResult call(Handler handler, JobOptions options) {
        Object output = null;
        Throwable thrown = null;
        synchronized (this) {
            thread = Thread.currentThread();
        }
        try {
            output = options.call(handler, this);
        } catch (Throwable error) {
            thrown = error;
        }
        synchronized (this) {
            thread = null;
            if (cancelled != null) Thread.interrupted();
            boolean stopped = cancelled != null || thrown instanceof CancelledException;
            return new RunResult(
                    stopped
                            ? RunResult.Outcome.CANCELLED
                            : thrown == null ? RunResult.Outcome.SUCCEEDED : RunResult.Outcome.FAILED,
                    thrown != null && !stopped && !(thrown instanceof FatalException),
                    output == null ? "" : output.toString(),
                    thrown,
                    processed,
                    failed,
                    Optional.ofNullable(newOffset),
                    List.copyOf(progress));
        }
    }

    /**
     * Runs a dataflow.
     *
     * @param flow the dataflow
     * @return how it ended
     */
    public RunResult call(Dataflow<?> flow) {
        return call(flow.asHandler());
    }

    /**
     * Tells the run to stop, as a worker would: interrupts the handler's thread, and runs its actions here.
     *
     * @param reason why
     */
    public void cancel(CancelReason reason) {
        List<Runnable> wanted;
        synchronized (this) {
            if (cancelled != null) return;
            cancelled = reason;
            wanted = List.copyOf(actions);
            if (thread != null && thread != Thread.currentThread()) thread.interrupt();
        }
        wanted.forEach(Runnable::run);
    }

    @Override
    public String job() {
        return given.job;
    }

    @Override
    public int item() {
        return given.item;
    }

    @Override
    public int total() {
        return given.total;
    }

    @Override
    public String itemParameter() {
        return given.itemParameter;
    }

    @Override
    public String jobParameter() {
        return given.jobParameter;
    }

    @Override
    public Map<String, String> props() {
        return given.props;
    }

    @Override
    public Instant fireTime() {
        return given.fireTime;
    }

    @Override
    public Source source() {
        return given.source;
    }

    @Override
    public int attempt() {
        return given.attempt;
    }

    @Override
    public long token() {
        return given.token;
    }

    @Override
    public byte[] offset() {
        return given.offset.clone();
    }

    @Override
    public synchronized void setOffset(byte[] offset) {
        if (offset.length > MAX_OFFSET) {
            throw new IllegalArgumentException("an offset may have " + MAX_OFFSET + " bytes, not " + offset.length);
        }
        newOffset = offset.clone();
    }

    @Override
    public synchronized void progress(int percent, String message) {
        progress.add(new RunResult.Progress(Math.max(0, Math.min(100, percent)), message == null ? "" : message));
    }

    @Override
    public synchronized void count(long processed, long failed) {
        if (processed < 0 || failed < 0) throw new IllegalArgumentException("counts only grow");
        this.processed += processed;
        this.failed += failed;
    }

    @Override
    public synchronized long processed() {
        return processed;
    }

    @Override
    public synchronized long failed() {
        return failed;
    }

    @Override
    public synchronized boolean cancelled() {
        return cancelled != null;
    }

    @Override
    public synchronized Optional<CancelReason> cancelReason() {
        return Optional.ofNullable(cancelled);
    }

    @Override
    public void onCancel(Runnable action) {
        synchronized (this) {
            if (cancelled == null) {
                actions.add(action);
                return;
            }
        }
        action.run();
    }

    @Override
    public void throwIfCancelled() {
        cancelReason().ifPresent(reason -> {
            throw new CancelledException("cancelled: " + reason.text());
        });
    }

    @Override
    public Optional<Instant> deadline() {
        return Optional.ofNullable(given.deadline);
    }

    @Override
    public boolean streaming() {
        return given.streaming;
    }

    @Override
    public boolean leaving() {
        return given.leaving;
    }

    @Override
    public String instanceId() {
        return INSTANCE;
    }

    @Override
    public String taskId() {
        return given.job + "@-@" + given.item + "@-@READY@-@" + INSTANCE;
    }

    @Override
    public Map<String, String> traceContext() {
        return given.traceContext;
    }

    /** Makes {@link TestRun}s; everything is optional. */
    public static final class Builder {
        private String job = "test";
        private int item;
        private int total = 1;
        private String itemParameter = "";
        private String jobParameter = "";
        private Map<String, String> props = Map.of();
        private Instant fireTime = Instant.EPOCH;
        private Source source = Source.MANUAL;
        private int attempt = 1;
        private long token = 1;
        private byte[] offset = {};
        private Instant deadline;
        private boolean streaming;
        private boolean leaving;
        private CancelReason cancelled;
        private Map<String, String> traceContext = Map.of();

        private Builder() {}

        /**
         * Sets the job's name.
         *
         * @param job the job's name
         * @return this
         */
        public Builder job(String job) {
            this.job = job;
            return this;
        }

        /**
         * Sets the item.
         *
         * @param item the item
         * @return this
         */
        public Builder item(int item) {
            this.item = item;
            return this;
        }

        /**
         * Sets how many items the job has.
         *
         * @param total how many items the job has
         * @return this
         */
        public Builder total(int total) {
            this.total = total;
            return this;
        }

        /**
         * Sets the item's parameter.
         *
         * @param itemParameter the item's parameter
         * @return this
         */
        public Builder itemParameter(String itemParameter) {
            this.itemParameter = itemParameter;
            return this;
        }

        /**
         * Sets the parameter of all items.
         *
         * @param jobParameter the parameter of all items
         * @return this
         */
        public Builder jobParameter(String jobParameter) {
            this.jobParameter = jobParameter;
            return this;
        }

        /**
         * Sets the job's properties.
         *
         * @param props the job's properties
         * @return this
         */
        public Builder props(Map<String, String> props) {
            this.props = Map.copyOf(props);
            return this;
        }

        /**
         * Sets the scheduled time.
         *
         * @param fireTime the scheduled time
         * @return this
         */
        public Builder fireTime(Instant fireTime) {
            this.fireTime = fireTime;
            return this;
        }

        /**
         * Sets why the run exists.
         *
         * @param source why the run exists
         * @return this
         */
        public Builder source(Source source) {
            this.source = source;
            return this;
        }

        /**
         * Sets the attempt.
         *
         * @param attempt the attempt, from 1
         * @return this
         */
        public Builder attempt(int attempt) {
            this.attempt = attempt;
            return this;
        }

        /**
         * Sets the fencing token.
         *
         * @param token the fencing token
         * @return this
         */
        public Builder token(long token) {
            this.token = token;
            return this;
        }

        /**
         * Sets the offset that the last run set.
         *
         * @param offset the offset that the last run set
         * @return this
         */
        public Builder offset(byte[] offset) {
            this.offset = offset.clone();
            return this;
        }

        /**
         * Sets the offset that the last run set, as UTF-8.
         *
         * @param offset the offset that the last run set, as UTF-8
         * @return this
         */
        public Builder offset(String offset) {
            return offset(offset.getBytes(StandardCharsets.UTF_8));
        }

        /**
         * Sets when the run times out.
         *
         * @param deadline when the run times out
         * @return this
         */
        public Builder deadline(Instant deadline) {
            this.deadline = deadline;
            return this;
        }

        /**
         * Sets whether a dataflow streams.
         *
         * @param streaming whether a dataflow streams
         * @return this
         */
        public Builder streaming(boolean streaming) {
            this.streaming = streaming;
            return this;
        }

        /**
         * Sets whether the worker is leaving.
         *
         * @param leaving whether the worker is leaving
         * @return this
         */
        public Builder leaving(boolean leaving) {
            this.leaving = leaving;
            return this;
        }

        /**
         * Sets why the run must stop from the start; null: it need not.
         *
         * @param cancelled why the run must stop from the start; null: it need not
         * @return this
         */
        public Builder cancelled(CancelReason cancelled) {
            this.cancelled = cancelled;
            return this;
        }

        /**
         * Sets the trace that the run belongs to.
         *
         * @param traceContext the trace that the run belongs to
         * @return this
         */
        public Builder traceContext(Map<String, String> traceContext) {
            this.traceContext = Map.copyOf(traceContext);
            return this;
        }

        /** {@return the run} */
        public TestRun build() {
            return new TestRun(this);
        }
    }
}
