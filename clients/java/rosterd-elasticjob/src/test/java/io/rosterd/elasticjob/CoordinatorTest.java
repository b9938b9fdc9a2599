package io.rosterd.elasticjob;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import io.rosterd.client.JobRefusedException;
import io.rosterd.harness.Coordinator;
import io.rosterd.harness.Wait;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.shardingsphere.elasticjob.annotation.ElasticJobConfiguration;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.infra.exception.JobConfigurationException;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** On a real coordinator, with registry centers of this process as processes. */
class CoordinatorTest {
    private static final String EVERY_SECOND = "0/1 * * * * ?";

    private static Coordinator coordinator;

    @BeforeAll
    static void start() {
        coordinator = Coordinator.onDisk();
    }

    @AfterAll
    static void stop() {
        coordinator.close();
    }

    private static RosterdRegistryCenter process(String address) {
        RosterdConfiguration config = new RosterdConfiguration(coordinator.server());
        config.setAddress(address);
        config.setHandlesSignals(false);
        RosterdRegistryCenter center = new RosterdRegistryCenter(config);
        center.init();
        return center;
    }

    private static final class Report implements SimpleJob {
        private final String where;

        Report(String where) {
            this.where = where;
        }

        @Override
        public void execute(ShardingContext context) {
            Recorded.add(context.getJobName(), where + " runs " + context.getShardingItem());
            if ("fail".equals(context.getJobParameter())) throw new IllegalStateException("no data");
        }
    }

    @ElasticJobConfiguration(jobName = "nightly", shardingTotalCount = 1, jobParameter = "all")
    private static final class Nightly implements SimpleJob {
        @Override
        public void execute(ShardingContext context) {
            Recorded.add(context.getJobName(), "ran for " + context.getJobParameter());
        }
    }

    private static boolean has(String job, String line) {
        return Recorded.of(job).contains(line);
    }

    @Test
    void processesShareAJobAndEachHasItsListeners() {
        JobConfiguration config = JobConfiguration.newBuilder("shared", 4)
                .cron(EVERY_SECOND)
                .jobListenerTypes("RECORD")
                .build();
        try (RosterdRegistryCenter first = process("a");
                RosterdRegistryCenter second = process("b")) {
            new ScheduleJobBootstrap(first, new Report("a"), config).schedule();
            ScheduleJobBootstrap other = new ScheduleJobBootstrap(second, new Report("b"), config);
            other.schedule();
            Wait.until(
                    "each has a half",
                    () -> has("shared", "before {0=null, 1=null}") && has("shared", "before {2=null, 3=null}"));
            Wait.until("each has run its own", () -> has("shared", "a runs 0") || has("shared", "b runs 0"));
            int before = Recorded.of("shared").size();
            other.shutdown();
            Wait.until("one has all", () -> {
                List<String> lines = List.copyOf(Recorded.of("shared"));
                return lines.subList(before, lines.size()).contains("after {0=null, 1=null, 2=null, 3=null}");
            });
        }
        List<String> elsewhere = Recorded.of("shared").stream()
                .filter(line -> line.contains("another thread"))
                .toList();
        assertEquals(List.of(), elsewhere);
    }

    @Test
    void oneListenerOfTheClusterIsCalledOnceForBothProcesses() {
        JobConfiguration config = JobConfiguration.newBuilder("published", 2)
                .cron(EVERY_SECOND)
                .shardingItemParameters("0=a,1=b")
                .jobListenerTypes("ONCE")
                .build();
        try (RosterdRegistryCenter first = process("a");
                RosterdRegistryCenter second = process("b")) {
            new ScheduleJobBootstrap(first, new Report("a"), config).schedule();
            new ScheduleJobBootstrap(second, new Report("b"), config).schedule();
            Wait.until(
                    "it is published by one of two",
                    () -> Recorded.of("published").stream()
                            .anyMatch(
                                    line -> line.equals("all completed {0=a}") || line.equals("all completed {1=b}")));
        }
        List<String> lines = Recorded.of("published");
        int started = (int)
                lines.stream().filter(line -> line.startsWith("all started")).count();
        int completed = (int)
                lines.stream().filter(line -> line.startsWith("all completed")).count();
        assertTrue(lines.get(0).startsWith("all started"), lines::toString);
        assertTrue(started - completed <= 1 && completed >= 1, lines::toString);
    }

    @Test
    void whatAJobThrowsIsTheRunsError() {
        JobConfiguration config = JobConfiguration.newBuilder("failed", 1)
                .jobParameter("fail")
                .jobErrorHandlerType("IGNORE")
                .build();
        try (RosterdRegistryCenter center = process("a")) {
            new OneOffJobBootstrap(center, new Report("a"), config).execute();
            Wait.until(
                    "the run has ended",
                    () -> runs("failed").size() == 1
                            && !runs("failed")
                                    .get(0)
                                    .getAsJsonObject()
                                    .get("outcome")
                                    .isJsonNull());
            JsonElement run = runs("failed").get(0);
            assertEquals("failed", run.getAsJsonObject().get("outcome").getAsString());
            String error = run.getAsJsonObject().get("error").getAsString();
            assertTrue(
                    error.startsWith("java.lang.IllegalStateException: no data\n\tat " + Report.class.getName()),
                    error);
        }
    }

    private static JsonArray runs(String job) {
        return JsonParser.parseString(coordinator.ask("runs", "--job", job, "--json"))
                .getAsJsonArray();
    }

    @Test
    void anAnnotatedJobNeedsNoConfiguration() {
        try (RosterdRegistryCenter center = process("a")) {
            new OneOffJobBootstrap(center, new Nightly()).execute();
            Wait.until("it ran", () -> has("nightly", "ran for all"));
            assertThrows(JobConfigurationException.class, () -> new OneOffJobBootstrap(center, new Report("a")));
        }
    }

    @Test
    void aJobThatTheCoordinatorRefusesIsAFailure() {
        try (RosterdRegistryCenter center = process("a")) {
            JobConfiguration config =
                    JobConfiguration.newBuilder("wrong", 1).cron("every day").build();
            new ScheduleJobBootstrap(center, new Report("a"), config).schedule();
            Wait.until("it has left", () -> center.failure().isPresent());
            JobRefusedException refused = (JobRefusedException) center.failure().orElseThrow();
            assertEquals("wrong", refused.job());
            assertTrue(refused.getMessage().contains("cron"), refused.getMessage());
        }
    }

    @Test
    void bootstrapsAreForTheirKindsOfJobs() {
        try (RosterdRegistryCenter center = process("a")) {
            JobConfiguration scheduled =
                    JobConfiguration.newBuilder("kinds", 1).cron(EVERY_SECOND).build();
            JobConfiguration asked = JobConfiguration.newBuilder("kinds", 1).build();
            assertThrows(
                    IllegalArgumentException.class, () -> new OneOffJobBootstrap(center, new Report("a"), scheduled));
            ScheduleJobBootstrap bootstrap = new ScheduleJobBootstrap(center, new Report("a"), asked);
            assertThrows(IllegalArgumentException.class, bootstrap::schedule);
        }
    }

    @Test
    void whereCredentialsAreAnOperatorTriggers(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("credentials.toml");
        String worker = secret("worker", file);
        String operator = secret("operator", file);
        try (Coordinator guarded = Coordinator.onDisk("--credentials", file.toString())) {
            RosterdConfiguration config = new RosterdConfiguration(guarded.server());
            config.setCredential(worker);
            config.setHandlesSignals(false);
            JobConfiguration job = JobConfiguration.newBuilder("guarded", 1).build();
            try (RosterdRegistryCenter center = new RosterdRegistryCenter(config)) {
                OneOffJobBootstrap bootstrap = new OneOffJobBootstrap(center, new Report("a"), job);
                JobTriggerException refused = assertThrows(JobTriggerException.class, bootstrap::execute);
                assertTrue(refused.getMessage().contains("setOperatorCredential"), refused.getMessage());
                config.setOperatorCredential(operator);
                bootstrap.execute();
                Wait.until("it ran", () -> has("guarded", "a runs 0"));
            }
        }
        assertTrue(Files.exists(file));
    }

    private static String secret(String role, Path file) {
        return Coordinator.run("credentials", "add", role, "--role", role, "--file", file.toString())
                .strip();
    }
}
