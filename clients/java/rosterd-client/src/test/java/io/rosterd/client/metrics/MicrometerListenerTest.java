package io.rosterd.client.metrics;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.rosterd.client.Run;
import io.rosterd.client.WorkerListener.RunEnd;
import io.rosterd.client.testing.TestRun;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class MicrometerListenerTest {
    private final SimpleMeterRegistry registry = new SimpleMeterRegistry();
    private final MicrometerListener listener = new MicrometerListener(registry);

    private double gauge(String name) {
        return registry.get(name).gauge().value();
    }

    @Test
    void whatAWorkerDoesIsCounted() {
        Run run = TestRun.builder().job("hello").build();
        listener.attached("a:1", "here@-@w1");
        listener.leaseRenewed(Duration.ofMillis(3));
        listener.runStarted(run);
        assertEquals(1, gauge("rosterd.runs.active"));
        assertEquals(1, gauge("rosterd.attached"));
        listener.runEnded(run, RunEnd.FAILED, Duration.ofSeconds(2), new IllegalStateException());
        listener.runNotStarted(run, "no slot is free");
        listener.detached("a:1", "gone");
        assertEquals(0, gauge("rosterd.runs.active"));
        assertEquals(0, gauge("rosterd.attached"));
        var failed = registry.get("rosterd.runs")
                .tags("job", "hello", "end", "failed")
                .timer();
        assertEquals(1, failed.count());
        assertEquals(1, registry.get("rosterd.runs.not.started").counter().count());
        assertEquals(1, registry.get("rosterd.heartbeat").timer().count());
    }
}
