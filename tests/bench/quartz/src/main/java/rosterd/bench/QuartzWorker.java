package rosterd.bench;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.time.Instant;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import org.quartz.CronScheduleBuilder;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

/**
 * A process of the released Quartz, one of a cluster on PostgreSQL. Its arguments are {@code name=value}. It writes its runs like
 * rosterd's own workers, and leaves at the same word on standard input. It ends immediately when that is closed, so that no
 * worker outlives the benchmarks.
 */
public final class QuartzWorker {

    private static final int ROW = 24;

    private static final int SPARE_CONNECTIONS = 5;

    /** Runs as their job saw them: job, item, scheduled time in milliseconds, microseconds from then to user code. */
    private static final Queue<long[]> SEEN = new ConcurrentLinkedQueue<>();

    private static Map<String, String> spec;

    private QuartzWorker() {}

    public static void main(final String[] arguments) throws Exception {
        spec = new HashMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            spec.put(pair[0], pair[1]);
        }
        CountDownLatch leave = new CountDownLatch(1);
        Thread orders = new Thread(() -> listen(leave));
        orders.setDaemon(true);
        orders.start();
        if (is("first")) makeTables();
        Scheduler scheduler = new StdSchedulerFactory(properties()).getScheduler();
        if (is("first")) schedule(scheduler);
        scheduler.start();
        System.out.println("came");
        leave.await();
        scheduler.shutdown(true);
        System.out.println("left");
        write();
        System.exit(0);
    }

    /** Quartz's own description of its tables. */
    private static void makeTables() throws Exception {
        String resource = "/org/quartz/impl/jdbcjobstore/tables_postgres.sql";
        try (InputStream tables = Scheduler.class.getResourceAsStream(resource);
                Connection connection = DriverManager.getConnection(spec.get("url"), spec.get("user"), "");
                Statement statement = connection.createStatement()) {
            statement.execute(new String(tables.readAllBytes(), StandardCharsets.UTF_8));
        }
    }

    private static Properties properties() {
        Properties all = new Properties();
        all.setProperty("org.quartz.scheduler.instanceName", "bench");
        all.setProperty("org.quartz.scheduler.instanceId", "AUTO");
        all.setProperty("org.quartz.scheduler.skipUpdateCheck", "true");
        all.setProperty("org.quartz.threadPool.class", "org.quartz.simpl.SimpleThreadPool");
        all.setProperty("org.quartz.threadPool.threadCount", spec.get("threads"));
        all.setProperty("org.quartz.scheduler.batchTriggerAcquisitionMaxCount", spec.get("batch"));
        all.setProperty("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
        all.setProperty(
                "org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate");
        all.setProperty("org.quartz.jobStore.isClustered", "true");
        all.setProperty("org.quartz.jobStore.clusterCheckinInterval", spec.get("checkin"));
        // Quartz requires it if it acquires more than one trigger at a time.
        all.setProperty("org.quartz.jobStore.acquireTriggersWithinLock", String.valueOf(!"1".equals(spec.get("batch"))));
        all.setProperty("org.quartz.jobStore.dataSource", "there");
        all.setProperty("org.quartz.dataSource.there.provider", "hikaricp");
        all.setProperty("org.quartz.dataSource.there.driver", "org.postgresql.Driver");
        all.setProperty("org.quartz.dataSource.there.URL", spec.get("url"));
        all.setProperty("org.quartz.dataSource.there.user", spec.get("user"));
        all.setProperty("org.quartz.dataSource.there.password", "");
        int connections = number("threads") + SPARE_CONNECTIONS;
        all.setProperty("org.quartz.dataSource.there.maxConnections", String.valueOf(connections));
        return all;
    }

    private static void schedule(final Scheduler scheduler) throws Exception {
        Map<JobDetail, Set<? extends Trigger>> all = new HashMap<>();
        for (int n = 0; n < number("jobs"); n++) {
            JobDetail job = JobBuilder.newJob(Tick.class)
                    .withIdentity("tick-" + n)
                    .usingJobData("number", String.valueOf(n))
                    .requestRecovery(is("recovery"))
                    .build();
            TriggerBuilder<Trigger> trigger = TriggerBuilder.newTrigger().withIdentity("tick-" + n);
            Trigger when = number("work") > 0
                    ? trigger.startNow().build()
                    : trigger.withSchedule(CronScheduleBuilder.cronSchedule("* * * * * ?")).build();
            all.put(job, new HashSet<>(Set.of(when)));
        }
        scheduler.scheduleJobs(all, false);
    }

    private static void write() throws IOException {
        try (DataOutputStream file =
                new DataOutputStream(new BufferedOutputStream(new FileOutputStream(spec.get("out"))))) {
            for (long[] row : SEEN) {
                ByteBuffer bytes = ByteBuffer.allocate(ROW).order(ByteOrder.LITTLE_ENDIAN);
                bytes.putInt((int) row[0]).putInt((int) row[1]).putLong(row[2]).putLong(row[3]);
                file.write(bytes.array());
            }
        }
    }

    private static void listen(final CountDownLatch leave) {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if ("leave".equals(line)) leave.countDown();
            }
        } catch (IOException ended) {
            // Treat it as closed.
        }
        // The parent is gone.
        Runtime.getRuntime().halt(3);
    }

    private static boolean is(final String name) {
        return Boolean.parseBoolean(spec.get(name));
    }

    private static int number(final String name) {
        return Integer.parseInt(spec.get(name));
    }

    /** What each job does. */
    public static final class Tick implements Job {

        @Override
        public void execute(final JobExecutionContext context) {
            Instant now = Instant.now();
            long micros = now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
            long due = context.getScheduledFireTime().getTime();
            int job = Integer.parseInt(context.getMergedJobDataMap().getString("number"));
            if (number("work") == 0) {
                SEEN.add(new long[] {job, 0, due, micros - due * 1000});
                return;
            }
            System.out.println("run " + context.isRecovering() + " " + micros);
            try {
                Thread.sleep(number("work"));
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
