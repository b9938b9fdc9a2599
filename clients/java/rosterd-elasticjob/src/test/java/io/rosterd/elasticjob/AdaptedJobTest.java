package io.rosterd.elasticjob;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonParser;
import io.rosterd.client.CancelReason;
import io.rosterd.client.Run;
import io.rosterd.client.testing.RunResult;
import io.rosterd.client.testing.TestRun;
import io.rosterd.harness.Wait;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.dataflow.job.DataflowJob;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.slf4j.MDC;

/** Jobs without listeners: their items run independently. */
class AdaptedJobTest {
    private static final Set<Integer> OWNED = Set.of(0, 2);

    private final List<AdaptedJob> open = new ArrayList<>();

    private AdaptedJob adapt(ElasticJob job, JobConfiguration config) {
        AdaptedJob adapted = AdaptedJob.of(job, "handler", config, new Here(OWNED), Duration.ZERO);
        open.add(adapted);
        return adapted;
    }

    @AfterEach
    void close() {
        open.forEach(AdaptedJob::close);
    }

    private static JobConfiguration.Builder config(String name) {
        return JobConfiguration.newBuilder(name, 3);
    }

    private static TestRun.Builder run(String job) {
        return TestRun.builder().job(job).item(2).total(3);
    }

    @Test
    void aJobSeesItsContext() {
        AtomicReference<ShardingContext> seen = new AtomicReference<>();
        AdaptedJob job = adapt((SimpleJob) seen::set, config("context").build());
        RunResult end = run("context")
                .itemParameter("Beijing")
                .jobParameter("daily")
                .build()
                .call(job::run);
        assertEquals(RunResult.Outcome.SUCCEEDED, end.outcome(), () -> String.valueOf(end.thrown()));
        ShardingContext context = seen.get();
        assertEquals("context@-@0,2@-@READY@-@127.0.0.1@-@test", context.getTaskId());
        assertEquals("context", context.getJobName());
        assertEquals(2, context.getShardingItem());
        assertEquals(3, context.getShardingTotalCount());
        assertEquals("Beijing", context.getShardingParameter());
        assertEquals("daily", context.getJobParameter());
    }

    @Test
    void anItemWithoutParameterHasNone() {
        AtomicReference<ShardingContext> seen = new AtomicReference<>();
        AdaptedJob job = adapt((SimpleJob) seen::set, config("none").build());
        run("none").build().call(job::run);
        assertEquals(null, seen.get().getShardingParameter());
    }

    @Test
    void aJobThatThrowsHasFailedAndItsErrorHandlerIsTold() {
        IllegalStateException thrown = new IllegalStateException("no data");
        AdaptedJob job = adapt(
                (SimpleJob) context -> {
                    throw thrown;
                },
                config("failing")
                        .jobErrorHandlerType("RECORD")
                        .setProperty("mail.to", "ann")
                        .build());
        RunResult end = run("failing").props(Map.of("mail.to", "ben")).build().call(job::run);
        assertEquals(RunResult.Outcome.FAILED, end.outcome());
        assertSame(thrown, end.thrown());
        // The coordinator's value, not the program's.
        assertEquals(List.of("error no data to ben"), Recorded.of("failing"));
    }

    @Test
    void anErrorHandlerWithoutWhatItNeedsIsRefusedAtOnce() {
        JobConfiguration config = config("invalid")
                .jobErrorHandlerType("RECORD")
                .setProperty("mail.to", "")
                .build();
        IllegalArgumentException refused =
                assertThrows(IllegalArgumentException.class, () -> adapt((SimpleJob) context -> {}, config));
        assertEquals("mail.to is empty", refused.getMessage());
    }

    @Test
    void anErrorHandlerThatThrowsDoesNotHideWhatWentWrong() {
        IllegalStateException thrown = new IllegalStateException("no data");
        AdaptedJob job = adapt(
                (SimpleJob) context -> {
                    throw thrown;
                },
                config("thrown").jobErrorHandlerType("THROW").build());
        assertSame(thrown, run("thrown").build().call(job::run).thrown());
    }

    @Test
    void theRunIsThereForThoseWhoNeedItsToken() {
        AtomicReference<Run> seen = new AtomicReference<>();
        AtomicReference<String> id = new AtomicReference<>();
        AdaptedJob job = adapt(
                (SimpleJob) context -> {
                    seen.set(CurrentRun.get().orElseThrow());
                    id.set(MDC.get("rosterd.token"));
                },
                config("token").build());
        TestRun run = run("token").token(77).build();
        run.call(each -> {
            MDC.put("rosterd.token", "77");
            try {
                return job.run(each);
            } finally {
                MDC.remove("rosterd.token");
            }
        });
        assertSame(run, seen.get());
        assertEquals("77", id.get());
        assertTrue(CurrentRun.get().isEmpty());
    }

    @Test
    void aStreamGoesOnUntilThereIsNothingAndIsCounted() {
        AtomicInteger batches = new AtomicInteger();
        DataflowJob<String> flow = new Flow(batches, 3);
        AdaptedJob job = adapt(flow, config("stream").build());
        RunResult end =
                run("stream").props(Map.of("streaming.process", "true")).build().call(job::run);
        assertEquals(6, end.processed());
        assertEquals(4, batches.get());
        assertTrue(
                job.file().text().contains("\"kind\": \"dataflow\""), job.file().text());
    }

    @Test
    void aStreamMakesRoomWhenTheWorkerLeaves() {
        AtomicInteger batches = new AtomicInteger();
        AdaptedJob job = adapt(new Flow(batches, 1_000), config("leaving").build());
        RunResult end = run("leaving")
                .props(Map.of("streaming.process", "true"))
                .leaving(true)
                .build()
                .call(job::run);
        assertEquals(RunResult.Outcome.SUCCEEDED, end.outcome());
        assertEquals(1, batches.get());
    }

    @Test
    void aRunThatMustStopInterruptsUserCodeAndWaitsForIt() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        AtomicReference<String> end = new AtomicReference<>();
        AdaptedJob job = adapt(
                (SimpleJob) context -> {
                    begun.countDown();
                    try {
                        new CountDownLatch(1).await();
                    } catch (InterruptedException told) {
                        end.set("interrupted");
                        throw new IllegalStateException(told);
                    }
                },
                config("stopped").jobErrorHandlerType("RECORD").build());
        TestRun run = run("stopped").build();
        CompletableFuture<RunResult> result = CompletableFuture.supplyAsync(() -> run.call(job::run));
        begun.await();
        run.cancel(CancelReason.OPERATOR);
        assertEquals(RunResult.Outcome.CANCELLED, result.get().outcome());
        assertEquals("interrupted", end.get());
        assertEquals(List.of(), Recorded.of("stopped"));
    }

    @Test
    void aPoolOfOneThreadRunsOneItemAtATime() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        AdaptedJob job = adapt(
                (SimpleJob) context -> {
                    most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    Thread.yield();
                    inside.decrementAndGet();
                },
                config("single").jobExecutorServiceHandlerType("SINGLE_THREAD").build());
        List<CompletableFuture<RunResult>> all = new ArrayList<>();
        for (int n = 0; n < 20; n++) {
            TestRun run = TestRun.builder().job("single").item(n % 3).total(3).build();
            all.add(CompletableFuture.supplyAsync(() -> run.call(job::run)));
        }
        for (CompletableFuture<RunResult> each : all)
            assertEquals(RunResult.Outcome.SUCCEEDED, each.get().outcome());
        assertEquals(1, most.get());
    }

    @Test
    void aListenerOfTheClusterIsAGuarantee() throws Exception {
        JobConfiguration config = config("once")
                .shardingItemParameters("0=a,1=b,2=c")
                .jobListenerTypes("ONCE")
                .jobErrorHandlerType("THROW")
                .build();
        AdaptedJob job = adapt((SimpleJob) context -> {}, config);
        assertEquals(
                JsonParser.parseString(
                        "{\"started\": true, \"completed\": true, \"timeout_ms\": 86400000, \"on_timeout\": \"skip\"}"),
                JsonParser.parseString(job.file().text())
                        .getAsJsonObject()
                        .getAsJsonObject("rosterd")
                        .get("guarantee"));
    }

    @Test
    void aJobThatWasShutDownLetsItsRunsEnd() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        AdaptedJob job = adapt(
                (SimpleJob) context -> {
                    begun.countDown();
                    try {
                        go.await();
                    } catch (InterruptedException told) {
                        throw new IllegalStateException(told);
                    }
                },
                config("closed").build());
        TestRun run = run("closed").build();
        CompletableFuture<RunResult> result = CompletableFuture.supplyAsync(() -> run.call(job::run));
        begun.await();
        job.close();
        go.countDown();
        assertEquals(RunResult.Outcome.SUCCEEDED, result.get().outcome());
        Wait.until(
                "a later run fails", () -> run("closed").build().call(job::run).outcome() == RunResult.Outcome.FAILED);
    }

    /** Fetches this many batches of two. */
    private record Flow(AtomicInteger batches, int most) implements DataflowJob<String> {
        @Override
        public List<String> fetchData(ShardingContext context) {
            return batches.incrementAndGet() > most ? List.of() : List.of("a", "b");
        }

        @Override
        public void processData(ShardingContext context, List<String> data) {
            assertEquals(2, data.size());
        }
    }
}
