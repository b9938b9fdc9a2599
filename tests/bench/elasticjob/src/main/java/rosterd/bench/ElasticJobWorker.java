package rosterd.bench;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.lite.api.bootstrap.impl.ScheduleJobBootstrap;
import org.apache.shardingsphere.elasticjob.reg.zookeeper.ZookeeperConfiguration;
import org.apache.shardingsphere.elasticjob.reg.zookeeper.ZookeeperRegistryCenter;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SchedulerException;
import org.quartz.impl.SchedulerRepository;
import org.quartz.listeners.JobListenerSupport;
import org.yaml.snakeyaml.Yaml;

/**
 * A process of the released Elastic-Job under the load that rosterd's own workers get: it takes the same words (its only
 * argument, JSON, which is YAML), writes the same file, and leaves at the same word on standard input. It ends immediately when
 * that is closed, so that no worker outlives the benchmarks.
 */
public final class ElasticJobWorker {

    private static final int ROW = 24;

    /** Runs as their handler saw them: job, item, scheduled time in milliseconds, microseconds from then to user code. */
    private final ConcurrentLinkedQueue<long[]> seen = new ConcurrentLinkedQueue<>();

    private final AtomicLong runs = new AtomicLong();

    private final Map<String, Object> spec;

    private ElasticJobWorker(final Map<String, Object> spec) {
        this.spec = spec;
    }

    public static void main(final String[] arguments) throws Exception {
        new ElasticJobWorker(new Yaml().load(arguments[0])).run();
    }

    private void run() throws Exception {
        CountDownLatch leave = new CountDownLatch(1);
        Thread orders = new Thread(() -> listen(leave));
        orders.setDaemon(true);
        orders.start();
        if ((Boolean) spec.get("pulse")) {
            Thread pulse = new Thread(this::pulse);
            pulse.setDaemon(true);
            pulse.start();
        }
        ZookeeperConfiguration where = new ZookeeperConfiguration(text("server"), text("namespace"));
        where.setSessionTimeoutMilliseconds(10_000);
        where.setConnectionTimeoutMilliseconds(10_000);
        ZookeeperRegistryCenter center = new ZookeeperRegistryCenter(where);
        center.init();
        List<ScheduleJobBootstrap> jobs = new ArrayList<>();
        for (int n = 0; n < number("count"); n++) {
            jobs.add(schedule(center, number("first") + n));
        }
        System.out.println("came");
        leave.await();
        jobs.forEach(ScheduleJobBootstrap::shutdown);
        center.close();
        System.out.println("left");
        write();
        // Its threads are not daemons.
        System.exit(0);
    }

    private ScheduleJobBootstrap schedule(final ZookeeperRegistryCenter center, final int number) throws SchedulerException {
        String name = text("prefix") + number;
        Map<String, Object> file = new Yaml().load(text("file").replace("{n}", String.valueOf(number % 10)));
        AtomicLong due = new AtomicLong();
        JobConfiguration config = JobConfiguration.newBuilder(name, (Integer) file.get("shardingTotalCount"))
                .cron((String) file.get("cron"))
                .monitorExecution((Boolean) file.getOrDefault("monitorExecution", true))
                .overwrite(true)
                .build();
        SimpleJob tick = context -> took(number, context, due.get());
        ScheduleJobBootstrap job = new ScheduleJobBootstrap(center, tick, config);
        // The scheduler of a job has its name, and one thread: its last event applies to all items of a fire. The
        // listener is there from the start, which is before the first scheduled time: otherwise that one would be
        // unknown.
        job.schedule();
        Scheduler scheduler = SchedulerRepository.getInstance().lookup(name);
        scheduler.getListenerManager().addJobListener(new DueTimes(due));
        return job;
    }

    /** The first line of user code. */
    private void took(final int job, final ShardingContext context, final long due) {
        Instant now = Instant.now();
        if (due == 0) {
            return;
        }
        long micros = now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
        runs.incrementAndGet();
        seen.add(new long[] {job, context.getShardingItem(), due, micros - due * 1000});
    }

    private void write() throws IOException {
        Object out = spec.get("out");
        if (out == null) {
            return;
        }
        try (DataOutputStream file = new DataOutputStream(new BufferedOutputStream(new FileOutputStream((String) out)))) {
            for (long[] row : seen) {
                ByteBuffer bytes = ByteBuffer.allocate(ROW).order(ByteOrder.LITTLE_ENDIAN);
                bytes.putInt((int) row[0]).putInt((int) row[1]).putLong(row[2]).putLong(row[3]);
                file.write(bytes.array());
            }
        }
    }

    private void pulse() {
        try {
            while (true) {
                Thread.sleep(1000);
                System.out.println("runs " + runs.get());
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static void listen(final CountDownLatch leave) {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if ("leave".equals(line)) {
                    leave.countDown();
                }
            }
        } catch (IOException ended) {
            // Treat it as closed.
        }
        // The parent is gone.
        Runtime.getRuntime().halt(3);
    }

    private String text(final String name) {
        return (String) spec.get(name);
    }

    private int number(final String name) {
        return (Integer) spec.get(name);
    }

    /** Keeps the scheduled time of the fire that begins. */
    private static final class DueTimes extends JobListenerSupport {

        private final AtomicLong due;

        DueTimes(final AtomicLong due) {
            this.due = due;
        }

        @Override
        public String getName() {
            return "due times";
        }

        @Override
        public void jobToBeExecuted(final JobExecutionContext context) {
            due.set(context.getScheduledFireTime().getTime());
        }
    }
}
