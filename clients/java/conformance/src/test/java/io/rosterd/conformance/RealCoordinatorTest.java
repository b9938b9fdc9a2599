package io.rosterd.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rosterd.client.JobConfig;
import io.rosterd.client.JobOptions;
import io.rosterd.client.Worker;
import io.rosterd.client.WorkerBuilder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Workers against the real coordinator. Every wait is for a state. */
class RealCoordinatorTest {
    private static final int SIGTERM = 15;

    private static RealCoordinator coordinator;

    @BeforeAll
    static void start() throws Exception {
        coordinator = new RealCoordinator();
    }

    @AfterAll
    static void stop() throws Exception {
        if (coordinator != null) coordinator.close();
    }

    private static WorkerBuilder builder() {
        return Worker.builder()
                .server(coordinator.address())
                .address("10.0.0.1")
                .handlesSignals(false);
    }

    private static WorkerProgram program(String job) throws Exception {
        return new WorkerProgram(coordinator.address(), job, Map.of()).registered(job);
    }

    /** A job of one item with this parameter. */
    private static void apply(String job, String parameter, String more) throws Exception {
        coordinator.apply("jobName: " + job + "\nshardingTotalCount: 1\nshardingItemParameters: '0=" + parameter
                + "'\nelasticJobClass: conformance\n" + more);
    }

    @Test
    void aJobThatComesWithTheWorkerIsMadeAndItsRunsAreRecorded() throws Exception {
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        JobConfig config = JobConfig.builder()
                .items(2)
                .itemParameters("a", "b")
                .props(Map.of("colour", "green"))
                .timeZone("Europe/Berlin")
                .build();
        try (Worker worker = builder().build()) {
            worker.job(
                    "brought",
                    run -> {
                        seen.add(run.item() + "/" + run.total() + " " + run.itemParameter() + " "
                                + new String(run.offset(), StandardCharsets.UTF_8) + " "
                                + run.props().get("colour"));
                        run.count(5, 1);
                        run.setOffset(("o" + run.item()).getBytes(StandardCharsets.UTF_8));
                        return "output";
                    },
                    JobOptions.builder().config(config).build());
            worker.start();
            RealCoordinator.until(
                    "the job is there", () -> coordinator.ask("jobs", "list").contains("brought"));
            coordinator.ask("jobs", "trigger", "brought");
            RealCoordinator.until(
                    "both items have run",
                    () -> coordinator.runs("brought").stream()
                                    .filter(run -> "succeeded".equals(run.get("outcome")))
                                    .count()
                            == 2);
            Map<String, Object> run = coordinator.ended("brought");
            assertEquals(List.of("output", 5), List.of(run.get("output"), run.get("processed")));
            coordinator.ask("jobs", "trigger", "brought");
            RealCoordinator.until("the second fire", () -> seen.size() == 4);
        }
        Collections.sort(seen);
        assertEquals(List.of("0/2 a  green", "0/2 a o0 green", "1/2 b  green", "1/2 b o1 green"), seen);
    }

    @Test
    void callbacksSurroundAFireThatHasThemGuaranteed() throws Exception {
        List<String> told = Collections.synchronizedList(new ArrayList<>());
        JobOptions options = JobOptions.builder()
                .config(JobConfig.builder()
                        .items(2)
                        .cron("* * * * * ?")
                        .guarantee(new JobConfig.Guarantee(true, true))
                        .build())
                .onAllStarted(fire -> told.add("started " + fire.job()))
                .onAllCompleted(fire -> told.add("completed " + fire.job()))
                .build();
        try (Worker worker = builder().build()) {
            worker.job("guarded", run -> told.add("item"), options).start();
            RealCoordinator.until("a fire has completed", () -> told.contains("completed guarded"));
        }
        assertEquals(List.of("started guarded", "item", "item"), told.subList(0, told.indexOf("completed guarded")));
    }

    @Test
    void anOperatorsCancelReachesHandlersThatWaitAndHandlersThatSpin() throws Exception {
        for (String step : List.of("sleep", "busy")) {
            String job = "cancelled-" + step;
            apply(job, step + " 60000", "");
            try (WorkerProgram worker = program(job)) {
                coordinator.ask("jobs", "trigger", job);
                worker.started();
                coordinator.ask("jobs", "cancel", job, "--item", "0");
                assertEquals("cancelled", coordinator.ended(job).get("outcome"));
            }
        }
    }

    @Test
    void aRunOutlivesACoordinatorThatIsKilledAndStartedAgain() throws Exception {
        apply("outlives", "sleep 3000;output done", "");
        try (WorkerProgram worker = program("outlives")) {
            coordinator.ask("jobs", "trigger", "outlives");
            worker.started();
            coordinator.kill();
            RealCoordinator.until(
                    "the worker has noticed", () -> worker.errors().contains("disconnected from"));
            coordinator.start();
            Map<String, Object> run = coordinator.ended("outlives");
            assertEquals(List.of("succeeded", "done"), List.of(run.get("outcome"), run.get("output")));
            assertEquals(1, coordinator.runs("outlives").size());
            assertFalse(worker.errors().contains("marked dead"));
        }
    }

    @Test
    void sigtermLetsARunEndAndTheWorkerIsGoneWithoutATraceOfFailure() throws Exception {
        apply("drained", "sleep 1500;output done", "failover: true\n");
        try (WorkerProgram worker = program("drained")) {
            coordinator.ask("jobs", "trigger", "drained");
            worker.started();
            worker.signal(SIGTERM);
            assertEquals(0, worker.exit(), worker.errors());
            Map<String, Object> run = coordinator.ended("drained");
            assertEquals(List.of("succeeded", "done"), List.of(run.get("outcome"), run.get("output")));
            assertTrue(worker.errors().contains("leaving once 1 run in flight (drained/0 token"), worker.errors());
        }
    }

    @Test
    void aSecondSignalEndsTheProcessAtOnce() throws Exception {
        apply("twice", "block 60000", "");
        try (WorkerProgram worker = program("twice")) {
            coordinator.ask("jobs", "trigger", "twice");
            worker.started();
            worker.signal(SIGTERM);
            RealCoordinator.until(
                    "it has heard the first", () -> worker.errors().contains("signal received"));
            // A signal within a second of the first repeats it, so it is sent until it has an effect.
            RealCoordinator.until("it ends", () -> {
                worker.signal(SIGTERM);
                return worker.process.waitFor(100, java.util.concurrent.TimeUnit.MILLISECONDS);
            });
            assertEquals(128 + SIGTERM, worker.exit());
        }
    }

    private static WorkerProgram background(String what) throws Exception {
        String program = BackgroundProgram.class.getName();
        return new WorkerProgram(coordinator.address(), "", Map.of(), program, what);
    }

    @Test
    void aWorkerInTheBackgroundLeavesBeforeTheProgramEndsByTheSignal() throws Exception {
        try (WorkerProgram program = background("wait").registered("background-wait")) {
            program.signal(SIGTERM);
            // The JVM's own handling of SIGTERM follows: shutdown hooks, and an exit code with the signal's number.
            assertEquals(128 + SIGTERM, program.exit(), program.errors());
            List<String> lines = program.errors().lines().toList();
            assertTrue(lines.get(lines.size() - 1).contains("the hook of the program"), program.errors());
            assertTrue(program.errors().contains("leaving: the worker was asked to stop"), program.errors());
        }
        assertGoneInOrder("background-wait");
    }

    @Test
    void aProgramThatExitsLetsItsWorkerLeaveFirst() throws Exception {
        try (WorkerProgram program = background("exit")) {
            assertEquals(3, program.exit(), program.errors());
            assertTrue(program.errors().contains("leaving: the worker was asked to stop"), program.errors());
        }
        assertGoneInOrder("background-exit");
    }

    /** A worker that did not leave in order is there until its lease expires. */
    private static void assertGoneInOrder(String job) throws Exception {
        assertEquals("[]", coordinator.ask("instances", "--job", job, "--json").strip());
    }

    @Test
    void anItemWhoseWorkerWasKilledRunsAgainWithAHigherToken() throws Exception {
        apply("failover", "sleep 60000", "failover: true\nrosterd: {disconnect_grace_ms: 1000}\n");
        try (WorkerProgram first = program("failover")) {
            coordinator.ask("jobs", "trigger", "failover");
            first.started();
            try (WorkerProgram second = program("failover")) {
                first.process.destroyForcibly().waitFor();
                second.started();
                RealCoordinator.until(
                        "both are recorded", () -> coordinator.runs("failover").size() == 2);
                Map<String, Object> again = coordinator.runs("failover").get(0);
                Map<String, Object> before = coordinator.runs("failover").get(1);
                assertEquals(List.of("FAILOVER", "crashed"), List.of(again.get("source"), before.get("outcome")));
                assertTrue(((Number) again.get("token")).longValue() > ((Number) before.get("token")).longValue());
            }
        }
    }
}
