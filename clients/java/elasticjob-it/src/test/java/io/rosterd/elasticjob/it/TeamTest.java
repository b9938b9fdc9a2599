package io.rosterd.elasticjob.it;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.rosterd.harness.Coordinator;
import io.rosterd.harness.Wait;
import io.rosterd.harness.ZooKeeperServer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Two processes share a job: each sees its own half of a fire, on Elastic-Job as on rosterd. */
class TeamTest {
    /** One process, and what it has printed. */
    private static final class Running implements AutoCloseable {
        private final Process process;
        private final List<String> lines = new CopyOnWriteArrayList<>();

        Running(String scheduler, String servers) throws IOException {
            process = new ProcessBuilder(
                            Path.of(System.getProperty("java.home"), "bin", "java")
                                    .toString(),
                            "-Xmx128m",
                            "-XX:TieredStopAtLevel=1",
                            "-cp",
                            System.getProperty("java.class.path"),
                            Member.class.getName(),
                            scheduler,
                            servers)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            BufferedReader output =
                    new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            Thread reader = new Thread(() -> output.lines().forEach(lines::add));
            reader.setDaemon(true);
            reader.start();
        }

        /** The last fire of two items, from before to after; empty: none yet. */
        List<String> half() {
            List<String> said = List.copyOf(lines);
            for (int at = said.size() - 4; at >= 0; at--) {
                List<String> fire = new ArrayList<>(said.subList(at, at + 4));
                if (fire.get(0).startsWith("before ") && fire.get(3).startsWith("after ")) {
                    fire.subList(1, 3).sort(null);
                    return fire;
                }
            }
            return List.of();
        }

        @Override
        public void close() throws Exception {
            process.getOutputStream().close();
            Wait.until("it has left", () -> !process.isAlive());
        }
    }

    @Test
    void eachProcessSeesItsOwnHalf() throws Exception {
        try (ZooKeeperServer zookeeper = new ZooKeeperServer();
                Coordinator coordinator = Coordinator.onZooKeeper(zookeeper.servers(), "team")) {
            List<List<String>> there = halves("elasticjob", zookeeper.servers());
            List<List<String>> here = halves("rosterd", coordinator.server());
            assertEquals(there, here);
            assertEquals(
                    "before job=team task=team@-@0,1@-@READY items={0=a, 1=b}/4 jobParameter=daily",
                    here.get(0).get(0));
        }
    }

    /** In the order of their items: which process has which half is chance. */
    private static List<List<String>> halves(String scheduler, String servers) throws Exception {
        try (Running one = new Running(scheduler, servers);
                Running other = new Running(scheduler, servers)) {
            // A process that a busy machine holds up for longer than its lease gets another half when it is back.
            List<List<String>> halves = new ArrayList<>();
            Wait.until("each has its own half", () -> {
                halves.clear();
                Stream.of(one.half(), other.half())
                        .filter(half -> !half.isEmpty())
                        .sorted((a, b) -> a.get(0).compareTo(b.get(0)))
                        .forEach(halves::add);
                return halves.size() == 2
                        && !halves.get(0).get(0).equals(halves.get(1).get(0));
            });
            return halves;
        }
    }
}
