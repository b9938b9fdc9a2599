package io.rosterd.conformance;

import io.rosterd.client.CancelledException;
import io.rosterd.client.Dataflow;
import io.rosterd.client.FireCallback;
import io.rosterd.client.JobOptions;
import io.rosterd.client.Run;
import io.rosterd.client.Worker;
import io.rosterd.client.WorkerBuilder;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A worker for the conformance kit: its handlers do what the item's parameter says (see {@link Steps}), and write down what happened
 * (see {@link RunLog}).
 *
 * <p>Besides the variables that every client reads, the environment has {@code CONFORMANCE_JOBS} (names separated by commas),
 * {@code CONFORMANCE_SLOTS}, {@code CONFORMANCE_DRAIN_MS}, {@code CONFORMANCE_ADDRESS}, {@code CONFORMANCE_CONFIG} (the text of a
 * job file for each job, {@code NAME} in it replaced), {@code CONFORMANCE_NAME} and {@code CONFORMANCE_LOG}.
 */
public final class ConformanceWorker {
    private static final String HANDLER_TYPE = "conformance";
    private static final long SLOW_CALLBACK_MILLIS = 2_000;

    private final Map<String, String> environment;
    private final RunLog log;
    // Attempts for which only the start was written.
    private final Set<Run> open = ConcurrentHashMap.newKeySet();

    private ConformanceWorker(Map<String, String> environment) throws IOException {
        this.environment = environment;
        log = RunLog.of(environment);
    }

    /** Works until it is asked to leave; exit code 0 after a clean leave. */
    public static void main(String[] arguments) throws IOException {
        System.exit(new ConformanceWorker(System.getenv()).work());
    }

    private int work() {
        try (Worker worker = builder().build()) {
            for (String job :
                    environment.getOrDefault("CONFORMANCE_JOBS", "conformance").split(",")) add(worker, job);
            worker.run();
            log.write("exit", null, "left");
            return 0;
        } catch (Exception failed) {
            log.write("exit", null, String.valueOf(failed.getMessage()));
            return 1;
        }
    }

    private WorkerBuilder builder() {
        WorkerBuilder builder = Worker.builder()
                .slots(Integer.parseInt(environment.getOrDefault("CONFORMANCE_SLOTS", "4")))
                .drainTimeout(
                        Duration.ofMillis(Long.parseLong(environment.getOrDefault("CONFORMANCE_DRAIN_MS", "30000"))));
        String address = environment.getOrDefault("CONFORMANCE_ADDRESS", "");
        return address.isEmpty() ? builder : builder.address(address);
    }

    private void add(Worker worker, String job) {
        JobOptions.Builder options = JobOptions.builder()
                .handlerType(HANDLER_TYPE)
                .before(this::begins)
                .onError(this::failed)
                .after(this::ends)
                .onAllStarted(callback(job, "started"))
                .onAllCompleted(callback(job, "completed"));
        String config = environment.getOrDefault("CONFORMANCE_CONFIG", "");
        if (!config.isEmpty()) options.config(config.replace("NAME", job));
        if (job.startsWith("dataflow")) worker.dataflow(job, new Batches(), options.build());
        else worker.job(job, run -> new Steps(run).perform(), options.build());
    }

    private FireCallback callback(String job, String kind) {
        return fire -> {
            log.callback(fire, kind);
            if (job.contains("slow-callback")) Thread.sleep(SLOW_CALLBACK_MILLIS);
            if (job.contains("bad-callback")) throw new IllegalStateException("refused");
        };
    }

    // ---- around every attempt

    private void begins(Run run) {
        log.write("start", run, "");
        open.add(run);
    }

    private void failed(Run run, Throwable error) {
        open.remove(run);
        boolean stopped = error instanceof CancelledException || run.cancelled();
        String reason = run.cancelReason().map(Enum::name).orElse("");
        log.write(stopped ? "cancel" : "end", run, stopped ? reason : error.toString());
    }

    private void ends(Run run) {
        if (open.remove(run)) log.write("end", run, "ok");
    }

    /** Returns as many batches of one record as the item's parameter says, and performs the other steps for each. */
    private static final class Batches implements Dataflow<Integer> {
        // By run: how many batches were fetched.
        private final Map<Run, Integer> fetched = new ConcurrentHashMap<>();
        private final Map<Run, Steps> steps = new ConcurrentHashMap<>();

        @Override
        public List<Integer> fetch(Run run) {
            int batch = fetched.merge(run, 1, Integer::sum);
            return batch > Steps.batches(run) ? List.of() : List.of(batch);
        }

        @Override
        public void process(Run run, List<Integer> data) throws Exception {
            steps.computeIfAbsent(run, Steps::new).perform();
        }
    }
}
