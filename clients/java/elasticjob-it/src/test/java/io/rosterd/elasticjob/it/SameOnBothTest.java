package io.rosterd.elasticjob.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rosterd.harness.Coordinator;
import io.rosterd.harness.Wait;
import io.rosterd.harness.ZooKeeperServer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * The same job classes, listeners and error handlers see the same on the released Elastic-Job and on rosterd, each on ZooKeeper.
 *
 * <p>The tests compare what they have recorded. Items of a fire run at the same time, so their lines are sorted.
 */
class SameOnBothTest {
    private static ZooKeeperServer zookeeper;
    private static Coordinator coordinator;
    private static Scheduler elasticJob;
    private static Scheduler rosterd;

    @BeforeAll
    static void start() {
        zookeeper = new ZooKeeperServer();
        coordinator = Coordinator.onZooKeeper(zookeeper.servers(), "reports");
        elasticJob = new OnElasticJob(zookeeper.servers(), "elasticjob");
        rosterd = new OnRosterd(coordinator.server(), "reports");
    }

    @AfterAll
    static void stop() {
        rosterd.close();
        elasticJob.close();
        coordinator.close();
        zookeeper.close();
    }

    /** The record of one execution of a job with this many lines. */
    private static List<String> execution(Scheduler scheduler, int lines, ElasticJob job, JobConfiguration config) {
        return execution(scheduler.oneOff(job, config), lines);
    }

    private static List<String> execution(Scheduler.OneOff job, int lines) {
        Journal.clear();
        try {
            job.execute();
            Wait.until(lines + " lines", () -> Journal.lines().size() >= lines);
        } finally {
            job.shutdown();
        }
        return inOrder(Journal.lines());
    }

    /** Lines of items between those of listeners, sorted: within an item they are in order already, by their text. */
    private static List<String> inOrder(List<String> lines) {
        List<String> ordered = new ArrayList<>();
        List<String> items = new ArrayList<>();
        for (String line : lines) {
            if (line.startsWith("execute ")
                    || line.startsWith("fetch ")
                    || line.startsWith("process ")
                    || line.startsWith("error ")) {
                items.add(line);
                continue;
            }
            ordered.addAll(items.stream().sorted().toList());
            items.clear();
            ordered.add(line);
        }
        ordered.addAll(items.stream().sorted().toList());
        return ordered;
    }

    private static JobConfiguration config(String name, int items, Consumer<JobConfiguration.Builder> more) {
        JobConfiguration.Builder builder = JobConfiguration.newBuilder(name, items);
        more.accept(builder);
        return builder.build();
    }

    private static void assertSame(int lines, java.util.function.Supplier<ElasticJob> job, JobConfiguration config) {
        List<String> there = execution(elasticJob, lines, job.get(), config);
        List<String> here = execution(rosterd, lines, job.get(), config);
        assertEquals(lines, there.size(), () -> String.join("\n", there));
        assertEquals(String.join("\n", there), String.join("\n", here));
    }

    @Test
    void aSimpleJobSeesTheSameContexts() {
        assertSame(
                3,
                ReportJob::new,
                config(
                        "simple",
                        3,
                        it -> it.shardingItemParameters("0=Beijing, 1=Shanghai").jobParameter("daily")));
    }

    @Test
    void anAnnotatedJobSeesTheSameContexts() {
        List<String> there = execution(elasticJob.oneOff(new ReportJob()), 2);
        List<String> here = execution(rosterd.oneOff(new ReportJob()), 2);
        assertEquals(String.join("\n", there), String.join("\n", here));
        assertTrue(here.get(1).endsWith("item=1/2 parameter=Shanghai jobParameter=daily"), here.get(1));
    }

    @Test
    void aDataflowFetchesOnce() {
        assertSame(4, OrdersJob::new, config("dataflow", 2, it -> {}));
    }

    @Test
    void aStreamingDataflowFetchesUntilThereIsNothing() {
        assertSame(14, OrdersJob::new, config("streaming", 2, it -> it.setProperty("streaming.process", "true")));
    }

    @Test
    void listenersAreCalledOnceAroundAllItems() {
        assertSame(
                5,
                ReportJob::new,
                config(
                        "listened",
                        3,
                        it -> it.shardingItemParameters("0=a,1=b,2=c").jobListenerTypes("JOURNAL")));
    }

    @Test
    void listenersAreCalledInTheirOrderAndOnlyLogWhatTheyThrow() {
        assertSame(5, ReportJob::new, config("ordered", 1, it -> it.jobListenerTypes("REFUSING", "JOURNAL")));
    }

    @Test
    void aListenerThatThrowsEndsTheFireWhereErrorsAreThrown() {
        assertSame(
                2,
                ReportJob::new,
                config(
                        "refused",
                        2,
                        it -> it.jobListenerTypes("REFUSING", "JOURNAL").jobErrorHandlerType("THROW")));
    }

    @Test
    void anErrorHandlerOfOnesOwnIsToldWithItsProperties() {
        assertSame(
                5,
                FailingJob::new,
                config(
                        "failing",
                        2,
                        it -> it.jobErrorHandlerType("JOURNAL")
                                .setProperty("journal.prefix", "of ")
                                .jobListenerTypes("JOURNAL")));
    }

    @Test
    void anItemThatFailsAloneEndsTheFireWhereErrorsAreThrown() {
        assertSame(
                2,
                FailingJob::new,
                config("thrown", 1, it -> it.jobErrorHandlerType("THROW").jobListenerTypes("JOURNAL")));
    }

    @Test
    void oneListenerOfTheClusterIsCalledOnceAroundAllItems() {
        JobConfiguration config = config(
                "once",
                2,
                it -> it.cron("0/1 * * * * ?")
                        .misfire(false)
                        .overwrite(true)
                        .shardingItemParameters("0=a,1=b")
                        .jobListenerTypes("ONCE"));
        assertEquals(
                firstFire(elasticJob, config, "all started", "all completed"),
                firstFire(rosterd, config, "all started", "all completed"));
    }

    @Test
    void aJobThatWasImportedIsWorkedForByItsClass() {
        JobConfiguration config = config(
                "moved",
                2,
                it -> it.cron("0/1 * * * * ?")
                        .misfire(false)
                        .timeZone("GMT+8:00")
                        .jobParameter("daily")
                        .jobListenerTypes("JOURNAL"));
        String there;
        try (Scheduler old = new OnElasticJob(zookeeper.servers(), "old")) {
            there = firstFire(old, config, "before", "after");
        }
        Coordinator.run(
                "import",
                "elastic-job",
                "--zk",
                zookeeper.servers(),
                "--from",
                "old",
                "--registry",
                "zookeeper",
                "--namespace",
                "moved");
        try (Coordinator next = Coordinator.onZooKeeper(zookeeper.servers(), "moved");
                Scheduler scheduler = new OnRosterd(next.server(), "moved")) {
            assertEquals(there, firstFire(scheduler, config, "before", "after"));
            assertTrue(next.ask("jobs", "show", "moved", "--json").contains(ReportJob.class.getName()));
        }
    }

    /**
     * The first whole fire of a scheduled job with two items, between two kinds of lines. On a busy machine a job that makes up
     * for misfires runs its items once more before Elastic-Job's listeners hear of the end: these jobs do not.
     */
    private static String firstFire(Scheduler scheduler, JobConfiguration config, String first, String last) {
        Journal.clear();
        Runnable shutdown = scheduler.schedule(new ReportJob(), config);
        try {
            Wait.until("a fire has ended", () -> Journal.lines().stream().anyMatch(line -> line.startsWith(last)));
        } finally {
            shutdown.run();
        }
        List<String> lines = inOrder(Journal.lines());
        int from = 0;
        while (!lines.get(from).startsWith(first)) from++;
        return String.join("\n", lines.subList(from, from + 4));
    }
}
