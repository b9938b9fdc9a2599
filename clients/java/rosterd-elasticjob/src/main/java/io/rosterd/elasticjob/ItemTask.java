package io.rosterd.elasticjob;

import io.rosterd.client.CancelledException;
import io.rosterd.client.Run;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;

/**
 * One run of an item between two threads: that of the run's handler, which waits and is interrupted when the run must stop, and
 * one of the job's pool, which runs user code.
 *
 * <p>The handler returns after user code has, however often that was interrupted: until then nothing else may run the item here.
 */
final class ItemTask implements Runnable {
    private final Run run;
    private final Carried carried;
    private final Consumer<ItemTask> ended;
    private final CountDownLatch released = new CountDownLatch(1);

    private volatile Work work;
    private Thread runner;
    private boolean over;
    private volatile Throwable failure;

    /** User code with its context. */
    @FunctionalInterface
    interface Work {
        void execute(Run run) throws Throwable;
    }

    /**
     * A task that gets its work later.
     *
     * @param run the run
     * @param carried what the handler's thread has
     * @param ended is called once: user code has ended, or will not begin
     */
    ItemTask(Run run, Carried carried, Consumer<ItemTask> ended) {
        this.run = run;
        this.carried = carried;
        this.ended = ended;
    }

    Run origin() {
        return run;
    }

    void give(Work work) {
        this.work = work;
    }

    synchronized boolean isOver() {
        return over;
    }

    Throwable failure() {
        return failure;
    }

    /** Runs user code on the calling thread, unless it is too late. */
    @Override
    public void run() {
        synchronized (this) {
            if (over) return;
            runner = Thread.currentThread();
        }
        Throwable thrown = null;
        try {
            carried.within(() -> work.execute(run));
        } catch (Throwable any) {
            thrown = any;
        }
        synchronized (this) {
            runner = null;
            over = true;
            failure = thrown;
            // An interrupt for this run must not reach the next one on this thread.
            Thread.interrupted();
        }
        ended.accept(this);
    }

    /** Interrupts user code; if it has not begun, it will not. */
    void stop() {
        synchronized (this) {
            if (over) return;
            if (runner != null) {
                runner.interrupt();
                return;
            }
        }
        refuse(new CancelledException("the run was stopped before it began"));
    }

    /** Ends the task, which will not begin, for this reason. */
    void refuse(Throwable reason) {
        synchronized (this) {
            if (over || runner != null) return;
            over = true;
            failure = reason;
        }
        ended.accept(this);
    }

    /** Lets the handler return. */
    void release() {
        released.countDown();
    }

    /** Waits for {@link #release()}; if this thread is interrupted meanwhile, user code is. */
    void await() throws Exception {
        boolean waiting = true;
        while (waiting) {
            try {
                released.await();
                waiting = false;
            } catch (InterruptedException told) {
                stop();
            }
        }
        if (failure instanceof Exception exception) throw exception;
        if (failure instanceof Error error) throw error;
        if (failure != null) throw new IllegalStateException(failure);
    }
}
