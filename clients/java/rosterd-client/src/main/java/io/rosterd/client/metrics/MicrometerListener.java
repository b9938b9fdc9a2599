package io.rosterd.client.metrics;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.rosterd.client.Run;
import io.rosterd.client.WorkerListener;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Counts what a worker does: {@code rosterd.runs} (a timer by job and end), {@code rosterd.runs.active} (a gauge),
 * {@code rosterd.runs.not.started} (by job), {@code rosterd.attached} (0 or 1) and {@code rosterd.heartbeat} (a timer of round trips).
 */
public final class MicrometerListener implements WorkerListener {
    private final MeterRegistry registry;
    private final Timer heartbeats;
    private final AtomicInteger active = new AtomicInteger();
    private final AtomicInteger attached = new AtomicInteger();

    /**
     * Counts in a registry.
     *
     * @param registry the registry
     */
    public MicrometerListener(MeterRegistry registry) {
        this.registry = registry;
        heartbeats = registry.timer("rosterd.heartbeat");
        Gauge.builder("rosterd.runs.active", active, AtomicInteger::get).register(registry);
        Gauge.builder("rosterd.attached", attached, AtomicInteger::get).register(registry);
    }

    @Override
    public void attached(String server, String instanceId) {
        attached.set(1);
    }

    @Override
    public void detached(String server, String reason) {
        attached.set(0);
    }

    @Override
    public void leaseRenewed(Duration roundTrip) {
        heartbeats.record(roundTrip);
    }

    @Override
    public void runStarted(Run run) {
        active.incrementAndGet();
    }

    @Override
    public void runEnded(Run run, RunEnd end, Duration duration, Throwable error) {
        active.decrementAndGet();
        registry.timer("rosterd.runs", "job", run.job(), "end", end.name().toLowerCase(Locale.ROOT))
                .record(duration);
    }

    @Override
    public void runNotStarted(Run run, String reason) {
        Counter.builder("rosterd.runs.not.started")
                .tag("job", run.job())
                .register(registry)
                .increment();
    }
}
