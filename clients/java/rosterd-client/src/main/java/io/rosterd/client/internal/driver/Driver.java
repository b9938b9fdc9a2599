package io.rosterd.client.internal.driver;

import io.grpc.netty.shaded.io.netty.channel.EventLoop;
import io.rosterd.client.CancelReason;
import io.rosterd.client.RosterdException;
import io.rosterd.client.internal.machine.Effect;
import io.rosterd.client.internal.machine.Event;
import io.rosterd.client.internal.machine.Machine;
import io.rosterd.client.internal.machine.Registration;
import io.rosterd.client.internal.machine.Settings;
import io.rosterd.client.internal.machine.Times;
import io.rosterd.client.internal.transport.Access;
import io.rosterd.client.internal.transport.Stream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Drives the machine on the thread of its streams, so that heartbeats go on whatever user code does.
 *
 * <p>Events of one turn of that loop are fed together, acknowledgements first: several frames may have arrived while the process
 * was frozen, and a proof of the lease must not wait behind a frame that depends on it, or behind a timer. So a driver whose own
 * timer is late lets the loop read the sockets before it feeds anything.
 */
public final class Driver implements Effect.Performer {
    /** The loop's clock stops while the machine sleeps, the lease's does not: check at least this often. */
    private static final long LONGEST_WAIT = Times.millis(250);
    /** A driver whose timer is this late was suspended. */
    private static final long LATE = Times.millis(20);
    /** How long the loop then gets to read the sockets: a scheduled task runs after them. */
    static final long CATCH_UP_MILLIS = 1;

    private final EventLoop loop;
    private final BootClock clock;
    private final LeaseView view;
    private final Access access;
    private final Outlet outlet;
    private final Machine machine;
    private final Queue<Event> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean flushing = new AtomicBoolean();
    private final Map<Long, Stream> streams = new HashMap<>();
    private CompletableFuture<Void> closing = CompletableFuture.completedFuture(null);
    private Future<?> timer = CompletableFuture.completedFuture(null);
    private long armedFor = Times.NEVER;
    private volatile boolean ready;
    private boolean over;

    /**
     * Makes one that has not begun.
     *
     * @param settings the settings of the machine
     * @param registrations its jobs
     * @param access how streams are secured
     * @param clock the clock
     * @param loop its thread
     * @param outlet the side of user code
     */
    public Driver(
            Settings settings,
            List<Registration> registrations,
            Access access,
            BootClock clock,
            EventLoop loop,
            Outlet outlet) {
        this.loop = loop;
        this.clock = clock;
        this.access = access;
        this.outlet = outlet;
        view = new LeaseView(clock, loop);
        machine = new Machine(
                settings, registrations, () -> ThreadLocalRandom.current().nextDouble());
    }

    /** {@return what user code sees} */
    public LeaseView view() {
        return view;
    }

    /** {@return whether the worker is attached, with a valid lease, and not leaving} */
    public boolean isReady() {
        return ready && view.valid();
    }

    /**
     * Takes an event, from any thread.
     *
     * @param event what happened
     */
    public void take(Event event) {
        waiting.add(event);
        if (flushing.compareAndSet(false, true)) execute(this::flush);
    }

    /**
     * Runs something on the driver's thread, from any thread.
     *
     * @param task what
     * @param delayMillis after how long
     */
    public void later(Runnable task, long delayMillis) {
        try {
            if (delayMillis == 0) loop.execute(task);
            else loop.schedule(task, delayMillis, TimeUnit.MILLISECONDS);
        } catch (RejectedExecutionException ended) {
            // Further events are ignored.
        }
    }

    private void execute(Runnable task) {
        later(task, 0);
    }

    private void flush() {
        long boot = clock.boot();
        boolean late = boot - LATE > armedFor;
        if (boot >= armedFor) disarm();
        if (late) {
            later(this::flush, CATCH_UP_MILLIS);
            return;
        }
        flushing.set(false);
        List<Event> batch = new ArrayList<>();
        for (Event event = waiting.poll(); event != null; event = waiting.poll()) batch.add(event);
        for (Event event : batch) if (event.provesLease()) feed(event);
        for (Event event : batch) if (!event.provesLease()) feed(event);
        if (!over) arm();
    }

    private void feed(Event event) {
        if (over) return;
        try {
            List<Effect> effects = machine.handle(clock.now(), event);
            // Before any effect: user code may be called by the next line.
            view.publish(machine.leaseStopsAt(), machine.liveStream());
            ready = machine.liveStream() != 0 && !machine.isLeaving();
            for (Effect effect : effects) effect.performBy(this);
        } catch (RuntimeException | Error defect) {
            // A defect of this library: without heartbeats every run must stop.
            end(new RosterdException("internal error: " + defect, defect));
        }
    }

    private void arm() {
        long boot = clock.boot();
        long next = Math.max(boot, Math.min(machine.deadline(), boot + LONGEST_WAIT));
        if (next >= armedFor) return;
        disarm();
        armedFor = next;
        // A timer that is a little early would find nothing to do, and be set again.
        timer = loop.schedule(this::tick, next - boot + 100_000, TimeUnit.NANOSECONDS);
    }

    private void disarm() {
        timer.cancel(false);
        armedFor = Times.NEVER;
    }

    private void tick() {
        // A timer that is early is set again; the flush notices one that is late.
        if (clock.boot() < armedFor) armedFor = Times.NEVER;
        take(new Event.Tick());
    }

    // ---- effects

    @Override
    public void open(Effect.Open effect) {
        Stream stream = new Stream(effect.stream(), effect.address(), access, loop, this::take);
        streams.put(effect.stream(), stream);
        closing.thenRun(() -> execute(stream::open));
    }

    @Override
    public void close(Effect.Close effect) {
        Stream stream = streams.remove(effect.stream());
        if (stream == null) return;
        CompletableFuture<Void> closed = stream.close();
        closing = closing.thenCompose(before -> closed);
    }

    @Override
    public void send(Effect.Send effect) {
        Stream stream = streams.get(effect.stream());
        if (stream != null && !stream.send(effect.frame())) {
            take(new Event.Lost(effect.stream(), "", "the coordinator does not read"));
        }
    }

    @Override
    public void startRun(Effect.StartRun effect) {
        outlet.startRun(effect);
    }

    @Override
    public void stopRun(Effect.StopRun effect) {
        outlet.stopRun(effect.key(), effect.reason());
    }

    @Override
    public void startCallback(Effect.StartCallback effect) {
        outlet.startCallback(effect.callback());
    }

    @Override
    public void attached(Effect.Attached effect) {
        outlet.attached(effect.server(), effect.instanceId());
    }

    @Override
    public void detached(Effect.Detached effect) {
        outlet.detached(effect.server(), effect.reason());
    }

    @Override
    public void renewed(Effect.Renewed effect) {
        outlet.renewed(Duration.ofNanos(effect.roundTrip()));
    }

    @Override
    public void assigned(Effect.Assigned effect) {
        outlet.assigned(effect.job(), effect.items());
    }

    @Override
    public void leaving(Effect.Leaving effect) {
        view.setLeaving();
    }

    @Override
    public void note(Effect.Note effect) {
        outlet.note(effect.level(), effect.text());
    }

    @Override
    public void finish(Effect.Finish effect) {
        end(effect.failure());
    }

    private void end(RosterdException failure) {
        if (over) return;
        over = true;
        ready = false;
        view.publish(Times.LONG_AGO, 0);
        // Nobody gets a report about what still runs: it must not go on as if somebody did.
        outlet.stopAll(CancelReason.LEASE_EXPIRED);
        timer.cancel(false);
        for (long number : List.copyOf(streams.keySet())) close(new Effect.Close(number));
        closing.thenRun(() -> outlet.finished(failure));
    }
}
