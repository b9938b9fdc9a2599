package io.rosterd.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** What tests against a scripted coordinator share. */
abstract class WireTest {
    private final List<ScriptedCoordinator> coordinators = new ArrayList<>();
    private final List<Worker> workers = new ArrayList<>();
    ScriptedCoordinator coordinator;

    @BeforeEach
    void startCoordinator() throws Exception {
        coordinator = another(0);
    }

    @AfterEach
    void stopAll() throws Exception {
        for (Worker worker : workers) worker.abort();
        for (ScriptedCoordinator one : coordinators) one.close();
        for (Worker worker : workers) worker.awaitTermination(Duration.ofSeconds(Until.PATIENCE_SECONDS));
    }

    ScriptedCoordinator another(int port) throws Exception {
        ScriptedCoordinator started = ScriptedCoordinator.start(port);
        coordinators.add(started);
        return started;
    }

    WorkerBuilder builder() {
        return Worker.builder()
                .environment(Map.of())
                .server(coordinator.address())
                .address("10.0.0.1")
                .slots(4)
                .handlesSignals(false);
    }

    Worker started(WorkerBuilder builder, Handler handler, JobOptions options) {
        Worker worker = builder.build().job(Frames.JOB, handler, options).start();
        workers.add(worker);
        return worker;
    }

    Worker started(Handler handler) {
        return started(builder(), handler, JobOptions.none());
    }

    /** Waits for the end of a worker. */
    static void awaitEnd(Worker worker) throws Exception {
        boolean ended = worker.awaitTermination(Duration.ofSeconds(Until.PATIENCE_SECONDS));
        if (!ended) throw new AssertionError("the worker does not end");
    }
}
