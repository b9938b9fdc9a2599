package io.rosterd.client;

import io.grpc.ManagedChannel;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.MultiThreadIoEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.nio.NioIoHandler;
import io.grpc.netty.shaded.io.netty.util.concurrent.DefaultThreadFactory;
import io.grpc.stub.MetadataUtils;
import io.rosterd.client.internal.driver.BootClock;
import io.rosterd.client.internal.driver.Driver;
import io.rosterd.client.internal.driver.Outlet;
import io.rosterd.client.internal.machine.Effect;
import io.rosterd.client.internal.machine.Event;
import io.rosterd.client.internal.machine.Registration;
import io.rosterd.client.internal.machine.RunKey;
import io.rosterd.client.internal.machine.Settings;
import io.rosterd.client.internal.machine.Times;
import io.rosterd.client.internal.transport.Channels;
import io.rosterd.client.internal.transport.ColdStart;
import io.rosterd.v1.Callback;
import java.io.IOException;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;

/** The life cycle of a worker: starts and stops driver, user code, signals and health. */
final class Engine implements Outlet, Signals.Target {
    private static final Logger LOG = LoggerFactory.getLogger(Worker.class);
    private static final Duration LAST_NOTICES = Duration.ofSeconds(2);

    private enum Phase {
        NEW,
        WORKING,
        ENDED
    }

    private final Options options;
    private final Map<String, Job> jobs = new ConcurrentHashMap<>();
    private final Map<String, Registration> registrations = new LinkedHashMap<>();
    /** What this worker owns, by the last Assignment. */
    private final Map<String, Set<Integer>> items = new ConcurrentHashMap<>();

    private final Notices notices = new Notices();
    private final ThreadPoolExecutor stopper = Threads.platform("rosterd-cancel-");
    private final CountDownLatch ended = new CountDownLatch(1);
    private final Signals signals = new Signals(this);

    private final Object lock = new Object();
    private Phase phase = Phase.NEW;
    private Event.Leave early;
    private boolean background;
    private EventLoopGroup loops;
    private volatile Driver driver;
    private volatile Runner runner;
    private volatile HealthServer health;
    private volatile String server;
    private volatile String instanceId;
    private volatile RosterdException failure;

    Engine(Options options) {
        this.options = options;
        server = options.settings().servers().get(0);
    }

    // ---- jobs

    void add(Job job) {
        synchronized (lock) {
            if (phase == Phase.ENDED) throw new IllegalStateException("job '" + job.name() + "': the worker has ended");
            if (registrations.putIfAbsent(job.name(), job.registration()) != null) {
                throw new InvalidOptionException("job '" + job.name() + "' is there already: give another name");
            }
            jobs.put(job.name(), job);
            if (phase == Phase.WORKING) driver.take(new Event.JobAdded(job.registration()));
        }
    }

    void remove(String job) {
        synchronized (lock) {
            // Its handler stays for the runs in flight, and its name cannot be used again.
            if (!registrations.containsKey(job)) throw new InvalidOptionException("there is no job '" + job + "' here");
            if (phase == Phase.WORKING) driver.take(new Event.JobRemoved(job));
            else if (phase == Phase.NEW) registrations.remove(job);
        }
    }

    // ---- working

    void start(boolean inBackground) {
        synchronized (lock) {
            if (phase != Phase.NEW) throw new IllegalStateException("a worker runs once");
            if (registrations.isEmpty()) throw new IllegalStateException("a worker without jobs has nothing to do");
            background = inBackground;
            loops = new MultiThreadIoEventLoopGroup(1, new DefaultThreadFactory("rosterd"), NioIoHandler.newFactory());
            try {
                prepare();
            } catch (RuntimeException | Error failed) {
                loops.shutdownGracefully(0, 1, TimeUnit.SECONDS);
                throw failed;
            }
            phase = Phase.WORKING;
            notices.start();
            if (options.handlesSignals()) signals.listen();
            driver.take(new Event.Start());
            if (early != null) driver.take(early);
        }
    }

    private void prepare() {
        ColdStart.loadFrames();
        driver = new Driver(
                settings(), List.copyOf(registrations.values()), options.access(), new BootClock(), loops.next(), this);
        Executor executor =
                options.executor() == null ? Threads.forHandlers(options.virtualThreads()) : options.executor();
        runner = new Runner(jobs, driver, executor, stopper, options.listener());
        if (options.health() != null) {
            health = new HealthServer(options.health(), () -> ended.getCount() > 0, this::isReady);
            LOG.info("health is served on port {}", health.port());
        }
    }

    private Settings settings() {
        Settings given = options.settings();
        if (!given.address().isEmpty()) return given;
        return new Settings(
                given.servers(),
                given.namespace(),
                OwnAddress.facing(server),
                given.labels(),
                given.slots(),
                given.drainTimeout(),
                given.leaveTimeout(),
                given.connectTimeout(),
                given.longestDelay(),
                given.credential(),
                given.ownAuthorities());
    }

    /** Grace null: the drain timeout. */
    void stop(Duration grace) {
        leave(new Event.Leave(grace == null ? null : Times.nanos(grace), false));
    }

    @Override
    public void signalled() {
        leave(new Event.Leave(null, true));
    }

    void abort() {
        synchronized (lock) {
            if (phase == Phase.WORKING) driver.take(new Event.Quit());
        }
    }

    private void leave(Event.Leave event) {
        synchronized (lock) {
            if (phase == Phase.WORKING) driver.take(event);
            else early = event;
        }
    }

    @Override
    public void exiting() {
        Settings settings = options.settings();
        long most = Times.after(settings.drainTimeout(), settings.leaveTimeout());
        try {
            stop(null);
            awaitEnd(Duration.ofNanos(Times.after(most, Times.millis(1_000))));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    void awaitEnd() throws InterruptedException {
        ended.await();
    }

    boolean awaitEnd(Duration timeout) throws InterruptedException {
        return ended.await(Times.nanos(timeout), TimeUnit.NANOSECONDS);
    }

    void close() {
        synchronized (lock) {
            if (phase == Phase.NEW) {
                phase = Phase.ENDED;
                ended.countDown();
            }
        }
        stop(null);
        boolean interrupted = false;
        while (ended.getCount() > 0) {
            try {
                ended.await();
            } catch (InterruptedException now) {
                interrupted = true;
                stop(Duration.ZERO);
            }
        }
        if (interrupted) Thread.currentThread().interrupt();
    }

    // ---- queries

    boolean isReady() {
        Driver present = driver;
        return present != null && present.isReady();
    }

    Optional<RosterdException> failure() {
        return Optional.ofNullable(failure);
    }

    Optional<String> instanceId() {
        return Optional.ofNullable(instanceId);
    }

    Set<Integer> items(String job) {
        return items.getOrDefault(job, Set.of());
    }

    OptionalInt healthPort() {
        HealthServer present = health;
        return present == null ? OptionalInt.empty() : OptionalInt.of(present.port());
    }

    ManagedChannel openChannel() {
        try {
            return Channels.to(server, options.access())
                    .intercept(MetadataUtils.newAttachHeadersInterceptor(Channels.metadata(options.access())))
                    .build();
        } catch (IOException error) {
            throw new RosterdException("a certificate cannot be read: " + error.getMessage(), error);
        }
    }

    // ---- called by the driver, on its thread

    @Override
    public void startRun(Effect.StartRun start) {
        runner.start(start);
    }

    @Override
    public void stopRun(RunKey key, CancelReason reason) {
        runner.stop(key, reason);
    }

    @Override
    public void stopAll(CancelReason reason) {
        runner.stopAll(reason);
    }

    @Override
    public void startCallback(Callback callback) {
        runner.startCallback(callback);
    }

    @Override
    public void attached(String attachedTo, String instance) {
        server = attachedTo;
        instanceId = instance;
        notices.add(() -> options.listener().attached(attachedTo, instance));
    }

    @Override
    public void detached(String from, String reason) {
        notices.add(() -> options.listener().detached(from, reason));
    }

    @Override
    public void renewed(Duration roundTrip) {
        notices.add(() -> options.listener().leaseRenewed(roundTrip));
    }

    @Override
    public void assigned(String job, List<Integer> owned) {
        items.put(job, Collections.unmodifiableSet(new LinkedHashSet<>(owned)));
    }

    @Override
    public void note(Level level, String text) {
        notices.add(() -> LOG.atLevel(level).log(text));
    }

    @Override
    public void finished(RosterdException why) {
        if (why != null) note(Level.ERROR, "the worker ended: " + why.getMessage());
        new Thread(() -> end(why), "rosterd-end").start();
    }

    private void end(RosterdException why) {
        try {
            notices.close(LAST_NOTICES);
        } catch (InterruptedException interrupted) {
            // The remaining steps must run all the same.
        }
        if (health != null) health.close();
        loops.shutdownGracefully(0, 1, TimeUnit.SECONDS);
        synchronized (lock) {
            phase = Phase.ENDED;
            failure = why;
        }
        if (options.handlesSignals()) signals.ignore();
        ended.countDown();
        try {
            if (background) signals.passOn();
        } catch (InterruptedException interrupted) {
            // The signal was passed on; nothing else is left to do.
        }
    }
}
