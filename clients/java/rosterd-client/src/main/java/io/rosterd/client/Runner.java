package io.rosterd.client;

import io.rosterd.client.WorkerListener.RunEnd;
import io.rosterd.client.internal.driver.Driver;
import io.rosterd.client.internal.machine.Effect;
import io.rosterd.client.internal.machine.Ending;
import io.rosterd.client.internal.machine.Event;
import io.rosterd.client.internal.machine.RunKey;
import io.rosterd.client.internal.machine.Times;
import io.rosterd.v1.Callback;
import java.io.InterruptedIOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.channels.ClosedByInterruptException;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Calls user code, and reports when it started and ended. Decides nothing: the machine decides which run starts or
 * stops.
 */
final class Runner {
    private static final Logger LOG = LoggerFactory.getLogger(Worker.class);

    private final Map<String, Job> jobs;
    private final Driver driver;
    private final Executor executor;
    private final Executor stopper;
    private final WorkerListener listener;
    private final Map<RunKey, ActiveRun> runs = new ConcurrentHashMap<>();

    Runner(Map<String, Job> jobs, Driver driver, Executor executor, Executor stopper, WorkerListener listener) {
        this.jobs = jobs;
        this.driver = driver;
        this.executor = executor;
        this.stopper = stopper;
        this.listener = listener;
    }

    // ---- called by the driver, on its thread

    void start(Effect.StartRun start) {
        ActiveRun run = new ActiveRun(start, driver, stopper, Instant.now());
        runs.put(run.key(), run);
        try {
            executor.execute(() -> call(run));
        } catch (RejectedExecutionException full) {
            runs.remove(run.key());
            driver.take(new Event.Ended(run.key(), Ending.notBegun("the executor refused the run: " + full)));
        }
    }

    void stop(RunKey key, CancelReason reason) {
        ActiveRun run = runs.get(key);
        if (run != null) run.stop(reason);
    }

    void stopAll(CancelReason reason) {
        for (ActiveRun run : runs.values()) run.stop(reason);
    }

    void startCallback(Callback callback) {
        try {
            executor.execute(() -> call(callback));
        } catch (RejectedExecutionException full) {
            String error = "the executor refused the callback: " + full;
            driver.take(new Event.CallbackEnded(callback.getCallbackId(), error));
        }
    }

    // ---- one attempt, on a thread of its own

    private void call(ActiveRun run) {
        String objection = lastLook(run);
        if (objection.isEmpty() && !run.begin())
            objection = "cancelled: " + run.told().text();
        if (!objection.isEmpty()) {
            runs.remove(run.key());
            driver.take(new Event.Ended(run.key(), run.end(Ending.Kind.NOT_BEGUN, "", objection)));
            String reason = objection;
            hook("runNotStarted", () -> listener.runNotStarted(run, reason));
            return;
        }
        driver.take(new Event.Began(run.key()));
        hook("runStarted", () -> listener.runStarted(run));
        long begun = System.nanoTime();
        Throwable error = null;
        Ending ending;
        try {
            ending = run.end(Ending.Kind.RETURNED, textOf(handled(run)), "");
        } catch (Throwable thrown) {
            error = thrown;
            Ending.Kind kind = kindOf(thrown, run);
            ending = run.end(kind, "", kind == Ending.Kind.CANCELLED ? messageOf(thrown) : describe(thrown));
        }
        // An interrupt for this run must not reach the next one on this thread.
        Thread.interrupted();
        runs.remove(run.key());
        driver.take(new Event.Ended(run.key(), ending));
        Throwable thrown = error;
        RunEnd end = endOf(ending.kind());
        Duration duration = Duration.ofNanos(System.nanoTime() - begun);
        hook("runEnded", () -> listener.runEnded(run, end, duration, thrown));
    }

    private Object handled(ActiveRun run) throws Exception {
        Job job = jobs.get(run.job());
        if (job == null) throw new FatalException("this worker has no job '" + run.job() + "'");
        try (RunContext context = RunContext.enter(run)) {
            return job.options().call(job.handler(), run);
        }
    }

    /** This thread may have waited since the machine checked: it checks once more right before user code. */
    private String lastLook(ActiveRun run) {
        if (driver.view().over()) return "the lease had expired before user code began";
        if (run.stream() != 0 && run.stream() != driver.view().liveStream()) {
            return "the stream was lost before user code began";
        }
        return "";
    }

    private static Ending.Kind kindOf(Throwable thrown, ActiveRun run) {
        if (thrown instanceof CancelledException) return Ending.Kind.CANCELLED;
        boolean interrupted = thrown instanceof InterruptedException
                || thrown instanceof InterruptedIOException
                || thrown instanceof ClosedByInterruptException;
        if (interrupted && run.told() != null) return Ending.Kind.CANCELLED;
        return thrown instanceof FatalException ? Ending.Kind.FATAL : Ending.Kind.THREW;
    }

    private static RunEnd endOf(Ending.Kind kind) {
        return switch (kind) {
            case RETURNED -> RunEnd.RETURNED;
            case CANCELLED -> RunEnd.CANCELLED;
            default -> RunEnd.FAILED;
        };
    }

    // ---- one callback

    private void call(Callback callback) {
        String error = "";
        try {
            FireCallback wanted = callbackOf(callback);
            if (wanted != null) {
                wanted.accept(new Fire(callback.getJob(), Times.instant(callback.getFireTime())));
            }
        } catch (Throwable thrown) {
            error = describe(thrown);
        }
        driver.take(new Event.CallbackEnded(callback.getCallbackId(), error));
    }

    private FireCallback callbackOf(Callback callback) {
        Job job = jobs.get(callback.getJob());
        if (job == null) return null;
        return switch (callback.getKind()) {
            case CALLBACK_KIND_ALL_STARTED -> job.options().onAllStarted();
            case CALLBACK_KIND_ALL_COMPLETED -> job.options().onAllCompleted();
            default -> null;
        };
    }

    // ---- texts

    private static String textOf(Object output) {
        if (output instanceof Map || output instanceof List) return Json.write(output);
        return output == null ? "" : output.toString();
    }

    private static String messageOf(Throwable thrown) {
        return thrown.getMessage() == null ? thrown.getClass().getSimpleName() : thrown.getMessage();
    }

    /** The error with its stack. */
    private static String describe(Throwable thrown) {
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text, true));
        return text.toString().stripTrailing();
    }

    private static void hook(String name, Runnable call) {
        try {
            call.run();
        } catch (RuntimeException error) {
            LOG.error("the listener's {} failed", name, error);
        }
    }
}
