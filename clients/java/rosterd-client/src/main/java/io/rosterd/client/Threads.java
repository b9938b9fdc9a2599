package io.rosterd.client;

import java.util.concurrent.Executor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** Where user code runs. */
final class Threads {
    private Threads() {}

    /** Virtual threads if requested and this JVM has them, else platform threads. */
    static Executor forHandlers(boolean virtual) {
        ThreadFactory factory = virtual ? virtualThreads() : null;
        return factory == null
                ? platform("rosterd-run-")
                : task -> factory.newThread(task).start();
    }

    /** A daemon thread for each task; idle threads are reused for a while. */
    static ThreadPoolExecutor platform(String prefix) {
        AtomicLong number = new AtomicLong();
        return new ThreadPoolExecutor(0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), task -> {
            Thread thread = new Thread(task, prefix + number.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        });
    }

    /** By reflection, since this library is built for Java 17; null: there are none. */
    static ThreadFactory virtualThreads() {
        try {
            Class<?> builderType = Class.forName("java.lang.Thread$Builder");
            Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
            Object named =
                    builderType.getMethod("name", String.class, long.class).invoke(builder, "rosterd-run-", 1L);
            return (ThreadFactory) builderType.getMethod("factory").invoke(named);
        } catch (ReflectiveOperationException absent) {
            return null;
        }
    }
}
