package io.rosterd.elasticjob;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rosterd.client.CancelReason;
import io.rosterd.client.Source;
import io.rosterd.client.testing.RunResult;
import io.rosterd.client.testing.TestRun;
import io.rosterd.harness.Wait;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Jobs with listeners: fires of this process, one after the other. */
class BatchesTest {
    private static final Instant FIRE = Instant.parse("2026-11-24T12:00:00Z");
    /** Longer than any test may take: the wait ends when all items are there. */
    private static final Duration LONG = Duration.ofMinutes(5);

    private static final Duration SHORT = Duration.ofMillis(50);

    /** Each run has a thread of its own, as in a worker. */
    private final ExecutorService handlers = Executors.newCachedThreadPool();

    private final Map<Integer, CountDownLatch> gates = new ConcurrentHashMap<>();
    private final List<AdaptedJob> open = new ArrayList<>();

    @AfterEach
    void close() {
        gates.values().forEach(CountDownLatch::countDown);
        open.forEach(AdaptedJob::close);
        handlers.shutdown();
    }

    /** A job whose items record when they begin and end, and wait at their gates. */
    private final class Gated implements SimpleJob {
        @Override
        public void execute(ShardingContext context) {
            String name = context.getJobName();
            Recorded.add(name, "begin " + context.getShardingItem());
            CountDownLatch gate = gates.get(context.getShardingItem());
            try {
                if (gate != null) gate.await();
            } catch (InterruptedException told) {
                throw new IllegalStateException("interrupted");
            }
            Recorded.add(name, "end " + context.getShardingItem());
        }
    }

    private AdaptedJob job(String name, Set<Integer> owned, Duration gather, String... listeners) {
        JobConfiguration config =
                JobConfiguration.newBuilder(name, 3).jobListenerTypes(listeners).build();
        return adapt(config, owned, gather);
    }

    private AdaptedJob adapt(JobConfiguration config, Set<Integer> owned, Duration gather) {
        AdaptedJob job = AdaptedJob.of(new Gated(), "handler", config, new Here(owned), gather);
        open.add(job);
        return job;
    }

    private static TestRun.Builder run(String job, int item, Instant fire) {
        return TestRun.builder().job(job).item(item).total(3).fireTime(fire);
    }

    private CompletableFuture<RunResult> begin(AdaptedJob job, TestRun run) {
        return CompletableFuture.supplyAsync(() -> run.call(job::run), handlers);
    }

    private CompletableFuture<RunResult> begin(AdaptedJob job, int item, Instant fire) {
        return begin(job, run(job.name(), item, fire).build());
    }

    private void close(int item) {
        gates.put(item, new CountDownLatch(1));
    }

    private void open(int item) {
        gates.get(item).countDown();
    }

    private static void sees(String job, String line) {
        Wait.until(job + ": " + line, () -> Recorded.of(job).contains(line));
    }

    @Test
    void listenersAreCalledOnceAroundAllItemsOfAFire() throws Exception {
        AdaptedJob job = job("whole", Set.of(0, 1), LONG, "RECORD");
        CompletableFuture<RunResult> first = begin(job, 0, FIRE);
        CompletableFuture<RunResult> second = begin(job, 1, FIRE);
        assertEquals(RunResult.Outcome.SUCCEEDED, first.get().outcome());
        assertEquals(RunResult.Outcome.SUCCEEDED, second.get().outcome());
        List<String> seen = Recorded.of("whole");
        assertEquals(6, seen.size(), seen::toString);
        assertEquals("before {0=null, 1=null}", seen.get(0));
        assertEquals("after {0=null, 1=null}", seen.get(5));
    }

    @Test
    void nobodyWaitsLongForAnItemThatDoesNotCome() throws Exception {
        AdaptedJob job = job("part", Set.of(0, 1), SHORT, "RECORD");
        assertEquals(RunResult.Outcome.SUCCEEDED, begin(job, 1, FIRE).get().outcome());
        assertEquals(List.of("before {1=null}", "begin 1", "end 1", "after {1=null}"), Recorded.of("part"));
    }

    @Test
    void onlyTheLastItemWaitsForTheListeners() throws Exception {
        close(1);
        AdaptedJob job = job("last", Set.of(0, 1), LONG, "RECORD");
        CompletableFuture<RunResult> first = begin(job, 0, FIRE);
        CompletableFuture<RunResult> second = begin(job, 1, FIRE);
        assertEquals(RunResult.Outcome.SUCCEEDED, first.get().outcome());
        assertTrue(Recorded.of("last").stream().noneMatch(line -> line.startsWith("after")));
        open(1);
        second.get();
        sees("last", "after {0=null, 1=null}");
    }

    @Test
    void aFireWaitsForTheOneBefore() throws Exception {
        close(1);
        AdaptedJob job = job("turns", Set.of(0, 1), SHORT, "RECORD");
        CompletableFuture<RunResult> slow = begin(job, 1, FIRE);
        sees("turns", "begin 1");
        CompletableFuture<RunResult> next = begin(job, 0, FIRE.plusSeconds(1));
        open(1);
        slow.get();
        next.get();
        assertEquals(
                List.of(
                        "before {1=null}",
                        "begin 1",
                        "end 1",
                        "after {1=null}",
                        "before {0=null}",
                        "begin 0",
                        "end 0",
                        "after {0=null}"),
                Recorded.of("turns"));
    }

    @Test
    void whatIsTakenOverFromACrashIsNotOfTheFire() throws Exception {
        AdaptedJob job = job("failover", Set.of(0), SHORT, "RECORD");
        begin(job, 0, FIRE).get();
        begin(job, run("failover", 2, FIRE).source(Source.FAILOVER).build()).get();
        assertEquals(
                2,
                Recorded.of("failover").stream()
                        .filter(line -> line.startsWith("before"))
                        .count());
        sees("failover", "after {2=null}");
    }

    @Test
    void aRunThatIsStoppedWhileItWaitsDoesNotBegin() throws Exception {
        AdaptedJob job = job("waiting", Set.of(0, 1), LONG, "RECORD");
        TestRun stopped = run("waiting", 0, FIRE).build();
        AtomicReference<Thread> handler = new AtomicReference<>();
        CompletableFuture<RunResult> end = CompletableFuture.supplyAsync(
                () -> stopped.call(each -> {
                    handler.set(Thread.currentThread());
                    return job.run(each);
                }),
                handlers);
        Wait.until("it waits", () -> handler.get() != null && handler.get().getState() == Thread.State.WAITING);
        stopped.cancel(CancelReason.OPERATOR);
        assertEquals(RunResult.Outcome.CANCELLED, end.get().outcome());
        begin(job, 1, FIRE).get();
        assertEquals(List.of("before {1=null}", "begin 1", "end 1", "after {1=null}"), Recorded.of("waiting"));
    }

    @Test
    void aRunThatIsStoppedInUserCodeEndsAlone() throws Exception {
        close(0);
        close(1);
        AdaptedJob job = job("stopped", Set.of(0, 1), LONG, "RECORD");
        TestRun stopped = run("stopped", 0, FIRE).build();
        CompletableFuture<RunResult> first = begin(job, stopped);
        CompletableFuture<RunResult> second = begin(job, 1, FIRE);
        sees("stopped", "begin 0");
        sees("stopped", "begin 1");
        stopped.cancel(CancelReason.OPERATOR);
        assertEquals(RunResult.Outcome.CANCELLED, first.get().outcome());
        open(1);
        assertEquals(RunResult.Outcome.SUCCEEDED, second.get().outcome());
        sees("stopped", "after {0=null, 1=null}");
    }

    @Test
    void aBatchThatCannotBeExecutedFailsItsRuns() throws Exception {
        AdaptedJob job = job("broken", Set.of(0), LONG, "RECORD");
        TestRun broken = run("broken", 0, FIRE).itemParameter(null).build();
        assertEquals(RunResult.Outcome.FAILED, begin(job, broken).get().outcome());
        assertEquals(
                RunResult.Outcome.SUCCEEDED,
                begin(job, 0, FIRE.plusSeconds(1)).get().outcome());
    }

    @Test
    void aListenerThatThrowsIsLoggedAndItemsRun() throws Exception {
        AdaptedJob job = job("logged", Set.of(0), LONG, "REFUSE", "RECORD");
        assertEquals(RunResult.Outcome.SUCCEEDED, begin(job, 0, FIRE).get().outcome());
        assertEquals(List.of("begin 0", "end 0"), Recorded.of("logged"));
    }

    @Test
    void whereErrorsAreThrownAListenerEndsTheFire() throws Exception {
        JobConfiguration config = JobConfiguration.newBuilder("refused", 3)
                .jobListenerTypes("REFUSE")
                .jobErrorHandlerType("THROW")
                .build();
        AdaptedJob job = adapt(config, Set.of(0, 1), LONG);
        CompletableFuture<RunResult> first = begin(job, 0, FIRE);
        RunResult second = begin(job, 1, FIRE).get();
        assertEquals(RunResult.Outcome.FAILED, first.get().outcome());
        assertEquals(RunResult.Outcome.FAILED, second.outcome());
        assertTrue(second.thrown().getMessage().contains("not today"), second.thrown()::toString);
        assertEquals(List.of(), Recorded.of("refused"));
    }
}
