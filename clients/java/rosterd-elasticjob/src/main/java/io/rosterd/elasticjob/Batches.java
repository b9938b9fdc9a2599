package io.rosterd.elasticjob;

import io.rosterd.client.Run;
import io.rosterd.client.Source;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * Fires of a job with listeners, one after the other, as Elastic-Job executes them in one process: its listeners are called once
 * before and once after all items of a fire here, always on the same thread.
 *
 * <p>A coordinator starts items separately. So this class gathers the runs of one fire into a {@link Batch}, until all items of
 * this process are there or none has come for a while. A fire that comes while another is executed waits for it.
 */
final class Batches {
    /** How long the thread that calls listeners is kept while idle. */
    private static final long IDLE_SECONDS = 30;

    private final Supplier<Set<Integer>> owned;
    private final Duration gather;
    private final ItemExecution execution;
    private final Listeners listeners;
    private final ThreadPoolExecutor turns;

    /** Batches that accept more runs. */
    private final Map<Key, Batch> open = new HashMap<>();

    /** The runs of one batch. Crashed runs that are taken over are separate from the fire that this process has executed. */
    private record Key(Instant fireTime, boolean failover) {
        static Key of(Run run) {
            return new Key(run.fireTime(), run.source() == Source.FAILOVER);
        }
    }

    Batches(String job, ItemExecution execution, Listeners listeners, Supplier<Set<Integer>> owned, Duration gather) {
        this.execution = execution;
        this.listeners = listeners;
        this.owned = owned;
        this.gather = gather;
        turns = new ThreadPoolExecutor(1, 1, IDLE_SECONDS, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), action -> {
            Thread thread = new Thread(action, "elasticjob-fires-" + job);
            thread.setDaemon(true);
            return thread;
        });
        turns.allowCoreThreadTimeOut(true);
    }

    /** Adds a run to the batch of its fire. */
    synchronized ItemTask join(Run run, Carried carried) {
        Key key = Key.of(run);
        Batch batch = open.get(key);
        if (batch == null || batch.has(run.item())) {
            batch = new Batch(execution, listeners);
            Batch begun = batch;
            turns.execute(() -> take(key, begun));
            open.put(key, batch);
        }
        ItemTask task = batch.add(run, carried);
        notifyAll();
        return task;
    }

    /** A batch's turn has come: waits for the rest of its runs, and executes it. */
    private void take(Key key, Batch batch) {
        try {
            gather(key, batch);
        } finally {
            batch.execute();
        }
    }

    private synchronized void gather(Key key, Batch batch) {
        try {
            long deadline = System.nanoTime() + gather.toNanos();
            long left = gather.toNanos();
            while (left > 0 && !isWhole(key, batch)) {
                TimeUnit.NANOSECONDS.timedWait(this, left);
                left = deadline - System.nanoTime();
            }
        } catch (InterruptedException ended) {
            // Execute what is there.
            Thread.currentThread().interrupt();
        } finally {
            open.remove(key, batch);
        }
    }

    /** The number of runs that fail over to this process is not known. */
    private boolean isWhole(Key key, Batch batch) {
        if (key.failover()) return false;
        Set<Integer> expected = new HashSet<>(owned.get());
        return !expected.isEmpty() && batch.hasAll(expected);
    }

    void close() {
        turns.shutdown();
    }
}
