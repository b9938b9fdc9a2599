package io.rosterd.elasticjob.it;

import java.util.List;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;

/** A process of a team that shares a job; it prints what its job and its listener see, until its input ends. */
final class Member {
    private static final long PAUSE_MILLISECONDS = 20;

    private Member() {}

    /** Arguments: which scheduler, and its servers. */
    public static void main(String[] arguments) throws Exception {
        Scheduler scheduler = arguments[0].equals("rosterd")
                ? new OnRosterd(arguments[1], "team")
                : new OnElasticJob(arguments[1], "team-of-elasticjob");
        JobConfiguration config = JobConfiguration.newBuilder("team", 4)
                .cron("0/1 * * * * ?")
                .shardingItemParameters("0=a,1=b,2=c,3=d")
                .jobParameter("daily")
                .jobListenerTypes("JOURNAL")
                .build();
        Runnable shutdown = scheduler.schedule(new ReportJob(), config);
        Thread printer = new Thread(Member::print);
        printer.setDaemon(true);
        printer.start();
        while (System.in.read() >= 0) {
            // The parent is still there.
        }
        shutdown.run();
        scheduler.close();
        System.exit(0);
    }

    private static void print() {
        int printed = 0;
        try {
            while (true) {
                List<String> lines = Journal.lines();
                for (; printed < lines.size(); printed++) System.out.println(lines.get(printed));
                Thread.sleep(PAUSE_MILLISECONDS);
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }
}
