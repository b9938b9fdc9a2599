package io.rosterd.elasticjob;

import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;

/** A job with a cron expression: replaces Elastic-Job's class of this name. */
public final class ScheduleJobBootstrap implements JobBootstrap {
    private final RosterdRegistryCenter center;
    private final AdaptedJob job;

    /**
     * A job with a class.
     *
     * @param center where it is registered
     * @param elasticJob what runs it
     * @param jobConfig how it is scheduled and run
     */
    public ScheduleJobBootstrap(RosterdRegistryCenter center, ElasticJob elasticJob, JobConfiguration jobConfig) {
        this(center, elasticJob, jobConfig, HandlerType.of(elasticJob));
    }

    /**
     * A job whose class is annotated with {@code @ElasticJobConfiguration}.
     *
     * @param center where it is registered
     * @param elasticJob what runs it
     */
    public ScheduleJobBootstrap(RosterdRegistryCenter center, ElasticJob elasticJob) {
        this(center, elasticJob, JobAnnotation.read(elasticJob.getClass()));
    }

    /**
     * A job without a class, for example {@code SCRIPT}.
     *
     * @param center where it is registered
     * @param elasticJobType a type for which Elastic-Job finds an executor
     * @param jobConfig how it is scheduled and run
     */
    public ScheduleJobBootstrap(RosterdRegistryCenter center, String elasticJobType, JobConfiguration jobConfig) {
        this.center = center;
        this.job = center.adapt(elasticJobType, jobConfig);
    }

    /**
     * A job with a class that is known by another name, for example because it was renamed, or is behind a proxy.
     *
     * @param center where it is registered
     * @param elasticJob what runs it
     * @param jobConfig how it is scheduled and run
     * @param handlerType the class name that the coordinator knows; all workers of the job name the same
     */
    public ScheduleJobBootstrap(
            RosterdRegistryCenter center, ElasticJob elasticJob, JobConfiguration jobConfig, String handlerType) {
        this.center = center;
        this.job = center.adapt(elasticJob, handlerType, jobConfig);
    }

    /** Registers the job and starts to take its items. Returns at once. */
    public void schedule() {
        if (!job.hasCron()) {
            throw new IllegalArgumentException(
                    "job '" + job.name() + "' has no cron expression: use OneOffJobBootstrap");
        }
        center.register(job);
    }

    @Override
    public void shutdown() {
        center.remove(job);
    }
}
