package io.rosterd.elasticjob;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.rosterd.harness.Coordinator;
import io.rosterd.harness.Wait;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;
import org.junit.jupiter.api.Test;

/** A process with Elastic-Job's jobs is killed, and another one takes over its items. */
class CrashTest {
    private static JobConfiguration config() {
        return JobConfiguration.newBuilder("taken-over", 1)
                .cron("0/1 * * * * ?")
                .failover(true)
                .jobListenerTypes("RECORD")
                .setProperty("rosterd.disconnect_grace_ms", "1000")
                .build();
    }

    private static RosterdRegistryCenter process(String server) {
        RosterdConfiguration config = new RosterdConfiguration(server);
        config.setHandlesSignals(false);
        config.setGatherMilliseconds(50);
        return new RosterdRegistryCenter(config);
    }

    /** The process that is killed. Its job never ends. */
    static final class Victim implements SimpleJob {
        public static void main(String[] arguments) {
            new ScheduleJobBootstrap(process(arguments[0]), new Victim(), config(), "report").schedule();
        }

        @Override
        public void execute(ShardingContext context) {
            System.out.println("item " + context.getShardingItem());
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException told) {
                throw new IllegalStateException(told);
            }
        }
    }

    /** The process that survives. It records the source of each of its runs. */
    private static final class Survivor implements SimpleJob {
        @Override
        public void execute(ShardingContext context) {
            String source = CurrentRun.get().orElseThrow().source().name();
            Recorded.add(context.getJobName(), source + " " + context.getShardingItem());
        }
    }

    @Test
    void itsRunIsRunAgainWithListenersAroundIt() throws Exception {
        try (Coordinator coordinator = Coordinator.onDisk()) {
            Process victim = new ProcessBuilder(
                            Path.of(System.getProperty("java.home"), "bin", "java")
                                    .toString(),
                            "-Xmx128m",
                            "-XX:TieredStopAtLevel=1",
                            "-cp",
                            System.getProperty("java.class.path"),
                            Victim.class.getName(),
                            coordinator.server())
                    .redirectErrorStream(true)
                    .start();
            try (RosterdRegistryCenter left = process(coordinator.server())) {
                awaitItem(victim);
                new ScheduleJobBootstrap(left, new Survivor(), config(), "report").schedule();
                Wait.until("it is registered", left::isReady);
                victim.destroyForcibly().waitFor();
                Wait.until("the item runs on", () -> Recorded.of("taken-over").contains("NORMAL_TRIGGER 0"));
            } finally {
                victim.destroyForcibly();
            }
        }
        List<String> seen = Recorded.of("taken-over");
        assertEquals(List.of("before {0=null}", "FAILOVER 0", "after {0=null}"), seen.subList(0, 3));
    }

    private static void awaitItem(Process victim) throws Exception {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(victim.getInputStream(), StandardCharsets.UTF_8));
        StringBuilder said = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("item 0")) return;
            said.append(line).append('\n');
        }
        throw new AssertionError("it ended: " + said);
    }
}
