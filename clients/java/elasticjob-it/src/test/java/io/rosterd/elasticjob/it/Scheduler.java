package io.rosterd.elasticjob.it;

import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;

/** What a program does with jobs, on one of the two. */
interface Scheduler extends AutoCloseable {
    /** A job that waits to be executed. */
    interface OneOff {
        void execute();

        void shutdown();
    }

    OneOff oneOff(ElasticJob job, JobConfiguration config);

    OneOff oneOff(ElasticJob annotated);

    OneOff oneOff(String type, JobConfiguration config);

    /** Schedules a job; the result removes it. */
    Runnable schedule(ElasticJob job, JobConfiguration config);

    @Override
    void close();
}
