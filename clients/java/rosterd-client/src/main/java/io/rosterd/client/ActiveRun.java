package io.rosterd.client;

import com.google.protobuf.ByteString;
import io.rosterd.client.internal.driver.Driver;
import io.rosterd.client.internal.machine.Effect;
import io.rosterd.client.internal.machine.Ending;
import io.rosterd.client.internal.machine.Event;
import io.rosterd.client.internal.machine.RunKey;
import io.rosterd.client.internal.machine.Texts;
import io.rosterd.client.internal.machine.Times;
import io.rosterd.v1.Trigger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Executor;

/** One attempt of a run of this worker. */
final class ActiveRun implements Run {
    private static final int MAX_OFFSET = 64 * 1024;
    /** Progress goes to the driver no more often than this, however often a handler reports it. */
    private static final long TELL_EVERY_MILLIS = 100;

    private final RunKey key;
    private final Trigger trigger;
    private final Effect.StartRun start;
    private final Map<String, String> props;
    private final Map<String, String> traceContext;
    private final Instant deadline;
    private final Driver driver;
    private final Executor stopper;

    // Guards the fields below.
    private final Object lock = new Object();
    private final List<Runnable> actions = new ArrayList<>();
    private Thread thread;
    private boolean over;
    private long processed;
    private long failed;
    private int percent;
    private String message = "";
    private ByteString offset;
    private boolean progressChanged;
    private boolean offsetChanged;
    private boolean telling;

    private volatile CancelReason stop;

    ActiveRun(Effect.StartRun start, Driver driver, Executor stopper, Instant now) {
        this.start = start;
        this.driver = driver;
        this.stopper = stopper;
        key = start.key();
        trigger = start.trigger();
        props = Map.copyOf(start.props());
        traceContext = Map.copyOf(trigger.getTraceContextMap());
        long timeout = Times.nanos(trigger.getTimeout());
        deadline = start.deadline() == null && timeout > 0 ? now.plusNanos(timeout) : start.deadline();
    }

    RunKey key() {
        return key;
    }

    /** The stream that must be the current one when the handler begins; 0: any. */
    long stream() {
        return start.stream();
    }

    // ---- what it is

    @Override
    public String job() {
        return key.job();
    }

    @Override
    public int item() {
        return key.item();
    }

    @Override
    public int total() {
        return trigger.getShardingTotalCount();
    }

    @Override
    public String itemParameter() {
        return trigger.getItemParameter();
    }

    @Override
    public String jobParameter() {
        return trigger.getJobParameter();
    }

    @Override
    public Map<String, String> props() {
        return props;
    }

    @Override
    public Instant fireTime() {
        return Times.instant(trigger.getFireTime());
    }

    @Override
    public Source source() {
        return switch (trigger.getSource()) {
            case RUN_SOURCE_NORMAL_TRIGGER -> Source.NORMAL_TRIGGER;
            case RUN_SOURCE_MISFIRE -> Source.MISFIRE;
            case RUN_SOURCE_FAILOVER -> Source.FAILOVER;
            case RUN_SOURCE_MANUAL -> Source.MANUAL;
            case RUN_SOURCE_UNSPECIFIED, UNRECOGNIZED -> Source.UNSPECIFIED;
        };
    }

    @Override
    public int attempt() {
        return start.attempt();
    }

    @Override
    public long token() {
        return key.token();
    }

    @Override
    public byte[] offset() {
        return start.offset().toByteArray();
    }

    @Override
    public Optional<Instant> deadline() {
        return Optional.ofNullable(deadline);
    }

    @Override
    public boolean streaming() {
        return trigger.getStreaming();
    }

    @Override
    public boolean leaving() {
        return driver.view().leaving();
    }

    @Override
    public String instanceId() {
        return start.instanceId();
    }

    @Override
    public String taskId() {
        return trigger.getTaskId();
    }

    @Override
    public Map<String, String> traceContext() {
        return traceContext;
    }

    // ---- what the handler reports

    @Override
    public void setOffset(byte[] given) {
        if (given.length > MAX_OFFSET) {
            throw new IllegalArgumentException(
                    "an offset may have " + MAX_OFFSET + " bytes, not " + given.length + ": store the rest elsewhere");
        }
        ByteString copy = ByteString.copyFrom(given);
        synchronized (lock) {
            offset = copy;
            offsetChanged = true;
            tellSoon();
        }
    }

    @Override
    public void progress(int percent, String message) {
        String said = message == null ? "" : Texts.shorten(message, Texts.MAX_PROGRESS);
        synchronized (lock) {
            this.percent = Math.max(0, Math.min(100, percent));
            this.message = said;
            progressChanged = true;
            tellSoon();
        }
    }

    @Override
    public void count(long processed, long failed) {
        if (processed < 0 || failed < 0) {
            throw new IllegalArgumentException("counts only grow: " + processed + " processed, " + failed + " failed");
        }
        synchronized (lock) {
            this.processed += processed;
            this.failed += failed;
        }
    }

    @Override
    public long processed() {
        synchronized (lock) {
            return processed;
        }
    }

    @Override
    public long failed() {
        synchronized (lock) {
            return failed;
        }
    }

    private void tellSoon() {
        if (telling || over) return;
        telling = true;
        driver.later(this::tell, 0);
    }

    /** On the driver's thread. */
    private void tell() {
        Event.Progressed progressed = null;
        Event.OffsetSet offsetSet = null;
        synchronized (lock) {
            telling = !over && (progressChanged || offsetChanged);
            if (!telling) return;
            if (progressChanged) progressed = new Event.Progressed(key, percent, message);
            if (offsetChanged) offsetSet = new Event.OffsetSet(key, offset);
            progressChanged = false;
            offsetChanged = false;
        }
        if (offsetSet != null) driver.take(offsetSet);
        if (progressed != null) driver.take(progressed);
        driver.later(this::tell, TELL_EVERY_MILLIS);
    }

    // ---- stopping

    @Override
    public boolean cancelled() {
        if (stop == null && driver.view().over()) {
            synchronized (lock) {
                if (over) return stop != null;
            }
            driver.take(new Event.Expired(key));
            stop(CancelReason.LEASE_EXPIRED);
        }
        return stop != null;
    }

    @Override
    public Optional<CancelReason> cancelReason() {
        return cancelled() ? Optional.ofNullable(stop) : Optional.empty();
    }

    @Override
    public void onCancel(Runnable action) {
        synchronized (lock) {
            if (over) return;
            if (stop == null) {
                actions.add(action);
                return;
            }
        }
        stopper.execute(action);
    }

    @Override
    public void throwIfCancelled() {
        if (cancelled()) throw new CancelledException("cancelled: " + stop.text());
    }

    /** Why it was told to stop, without a check of the lease. */
    CancelReason told() {
        return stop;
    }

    /** Tells the handler to stop: interrupts its thread, and has its actions run. From any thread. */
    void stop(CancelReason reason) {
        List<Runnable> wanted;
        synchronized (lock) {
            if (stop != null || over) return;
            stop = reason;
            wanted = List.copyOf(actions);
            actions.clear();
            // The handler's own thread has just asked, so it knows.
            if (thread != null && thread != Thread.currentThread()) thread.interrupt();
        }
        wanted.forEach(stopper::execute);
    }

    // ---- its thread

    /** Marks the calling thread as the handler's. False: the run was told to stop before. */
    boolean begin() {
        synchronized (lock) {
            if (stop != null) return false;
            thread = Thread.currentThread();
            return true;
        }
    }

    /** The handler has ended: its further calls are ignored. */
    Ending end(Ending.Kind kind, String output, String error) {
        synchronized (lock) {
            over = true;
            thread = null;
            actions.clear();
            return new Ending(kind, output, error, processed, failed, offset);
        }
    }
}
