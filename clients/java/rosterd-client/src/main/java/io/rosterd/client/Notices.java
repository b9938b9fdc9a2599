package io.rosterd.client;

import java.time.Duration;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Calls loggers and listeners of the program on a thread of their own: one that blocks delays no heartbeat. If it
 * blocks for long, further notices are dropped and counted.
 */
final class Notices {
    private static final Logger LOG = LoggerFactory.getLogger(Worker.class);
    private static final int MAX_WAITING = 1024;
    private static final Runnable END = () -> {};

    private final BlockingQueue<Runnable> waiting = new ArrayBlockingQueue<>(MAX_WAITING);
    private final AtomicInteger leftOut = new AtomicInteger();
    private final Thread thread = new Thread(this::work, "rosterd-notices");

    Notices() {
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** From any thread; returns at once. */
    void add(Runnable notice) {
        if (!waiting.offer(notice)) leftOut.incrementAndGet();
    }

    /** Waits until all were called, at most this long. */
    void close(Duration patience) throws InterruptedException {
        long end = System.nanoTime() + patience.toNanos();
        while (!waiting.offer(END) && System.nanoTime() < end) Thread.sleep(10);
        thread.join(Math.max(1, (end - System.nanoTime()) / 1_000_000));
    }

    private void work() {
        try {
            for (Runnable notice = waiting.take(); notice != END; notice = waiting.take()) {
                int missing = leftOut.getAndSet(0);
                if (missing > 0) LOG.warn("{} notices were left out: a logger or a listener was too slow", missing);
                call(notice);
            }
        } catch (InterruptedException interrupted) {
            // Nobody interrupts this thread; if somebody does, nothing is left to do.
        }
    }

    private static void call(Runnable notice) {
        try {
            notice.run();
        } catch (RuntimeException error) {
            LOG.error("a listener failed", error);
        }
    }
}
