package io.rosterd.client;

import io.grpc.ManagedChannel;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;

/**
 * One worker process: one stream to a coordinator carries all its jobs.
 *
 * <pre>{@code
 * Worker worker = Worker.builder().server("localhost:7700").slots(8).build();
 * worker.job("hello", run -> "item " + run.item() + " of " + run.total());
 * worker.run();
 * }</pre>
 *
 * <p>Stream, heartbeats and timers have a thread of their own: whatever handlers do, the worker keeps its lease. A worker runs
 * once.
 */
public final class Worker implements AutoCloseable {
    private final Engine engine;

    Worker(Options options) {
        engine = new Engine(options);
    }

    /** {@return a builder} */
    public static WorkerBuilder builder() {
        return new WorkerBuilder();
    }

    /**
     * Adds a job: the handler is called for every run of its items that this worker gets.
     *
     * @param name the job's name; the job must exist
     * @param handler its code
     * @return this
     */
    public Worker job(String name, Handler handler) {
        return job(name, handler, JobOptions.none());
    }

    /**
     * Adds a job with options. A job may also be added while the worker runs.
     *
     * @param name the job's name
     * @param handler its code
     * @param options its config, handler type and callbacks
     * @return this
     * @throws InvalidOptionException if the worker has the job already, or an option is not valid
     * @throws IllegalStateException if the worker has ended
     */
    public Worker job(String name, Handler handler, JobOptions options) {
        engine.add(new Job(name, Objects.requireNonNull(handler, "handler"), options));
        return this;
    }

    /**
     * Adds a job that fetches and processes.
     *
     * @param <T> the type of a record
     * @param name the job's name; the job must exist
     * @param flow its code
     * @return this
     */
    public <T> Worker dataflow(String name, Dataflow<T> flow) {
        return dataflow(name, flow, JobOptions.none());
    }

    /**
     * Adds a job that fetches and processes, with options.
     *
     * @param <T> the type of a record
     * @param name the job's name
     * @param flow its code
     * @param options its config, handler type and callbacks
     * @return this
     */
    public <T> Worker dataflow(String name, Dataflow<T> flow, JobOptions options) {
        return job(name, flow.asHandler(), options);
    }

    /**
     * Removes a job: the worker gets no more of its runs; those in flight go on. A worker that removes its last job
     * leaves. The job cannot be added again.
     *
     * @param name the job's name
     */
    public void removeJob(String name) {
        engine.remove(name);
    }

    /**
     * Runs until the worker has left: until {@link #stop()}, a signal, or an operator asks for it.
     *
     * @throws JobRefusedException if no job is left, and one was refused
     * @throws RejectedException if every coordinator rejected the worker
     * @throws InterruptedException if this thread was interrupted; the worker then leaves by itself
     * @throws IllegalStateException if it has run before, or has no job
     */
    public void run() throws InterruptedException {
        engine.start(false);
        try {
            engine.awaitEnd();
        } catch (InterruptedException interrupted) {
            stop();
            throw interrupted;
        }
        Optional<RosterdException> failure = failure();
        if (failure.isPresent()) throw failure.get();
    }

    /**
     * Starts the worker, and returns. See {@link #stop()}, {@link #awaitTermination} and {@link #failure()}.
     *
     * @return this
     * @throws IllegalStateException if it has run before, or has no job
     */
    public Worker start() {
        engine.start(true);
        return this;
    }

    /** Asks the worker to leave in order: no new runs, those in flight have the drain timeout. Returns at once. */
    public void stop() {
        engine.stop(null);
    }

    /**
     * Asks the worker to leave in order. The earliest of several deadlines applies.
     *
     * @param grace how long runs may still take; then they are cancelled and handed back
     */
    public void stop(Duration grace) {
        engine.stop(Objects.requireNonNull(grace, "grace"));
    }

    /**
     * Waits until the worker has left.
     *
     * @param timeout how long to wait
     * @return false: it has not left yet
     * @throws InterruptedException if this thread was interrupted
     */
    public boolean awaitTermination(Duration timeout) throws InterruptedException {
        return engine.awaitEnd(timeout);
    }

    /**
     * Leaves in order and waits for it. If this thread is interrupted, runs are cancelled and handed back at once. A worker that
     * never ran just ends.
     */
    @Override
    public void close() {
        engine.close();
    }

    /** Leaves without a goodbye: its runs count as crashed. */
    void abort() {
        engine.abort();
    }

    /** {@return whether the worker is attached to a coordinator, has a valid lease, and is not leaving} */
    public boolean isReady() {
        return engine.isReady();
    }

    /** {@return why the worker ended, if it ended by an error} */
    public Optional<RosterdException> failure() {
        return engine.failure();
    }

    /** {@return the worker's id under each of its jobs, once a coordinator has welcomed it} */
    public Optional<String> instanceId() {
        return engine.instanceId();
    }

    /**
     * The items of a job that this worker owns: it gets their runs, and those that are failed over to it.
     *
     * @param job the job's name
     * @return the items by the last Assignment, which comes before the first run that follows a change; empty before any
     */
    public Set<Integer> items(String job) {
        return engine.items(job);
    }

    /** {@return where health is served, once it is} */
    public OptionalInt healthPort() {
        return engine.healthPort();
    }

    /**
     * Opens a channel for calls of the administration ({@code io.rosterd.v1.AdminServiceGrpc}), with this worker's credential and
     * certificates, to the coordinator that it is attached to, else to the first of its coordinators.
     *
     * @return a channel of its own; the caller shuts it down
     */
    public ManagedChannel openChannel() {
        return engine.openChannel();
    }
}
