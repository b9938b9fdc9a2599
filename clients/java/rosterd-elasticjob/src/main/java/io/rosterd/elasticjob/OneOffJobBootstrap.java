package io.rosterd.elasticjob;

import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;

/** A job that runs on request: replaces Elastic-Job's class of this name. */
public final class OneOffJobBootstrap implements JobBootstrap {
    private final RosterdRegistryCenter center;
    private final AdaptedJob job;

    /**
     * A job with a class.
     *
     * @param center where it is registered
     * @param elasticJob what runs it
     * @param jobConfig how it is run; it must have no cron expression
     */
    public OneOffJobBootstrap(RosterdRegistryCenter center, ElasticJob elasticJob, JobConfiguration jobConfig) {
        this(center, elasticJob, jobConfig, HandlerType.of(elasticJob));
    }

    /**
     * A job whose class is annotated with {@code @ElasticJobConfiguration}.
     *
     * @param center where it is registered
     * @param elasticJob what runs it
     */
    public OneOffJobBootstrap(RosterdRegistryCenter center, ElasticJob elasticJob) {
        this(center, elasticJob, JobAnnotation.read(elasticJob.getClass()));
    }

    /**
     * A job without a class, for example {@code SCRIPT}.
     *
     * @param center where it is registered
     * @param elasticJobType a type for which Elastic-Job finds an executor
     * @param jobConfig how it is run; it must have no cron expression
     */
    public OneOffJobBootstrap(RosterdRegistryCenter center, String elasticJobType, JobConfiguration jobConfig) {
        this(center, center.adapt(elasticJobType, jobConfig));
    }

    /**
     * A job with a class that is known by another name, for example because it was renamed, or is behind a proxy.
     *
     * @param center where it is registered
     * @param elasticJob what runs it
     * @param jobConfig how it is run; it must have no cron expression
     * @param handlerType the class name that the coordinator knows; all workers of the job name the same
     */
    public OneOffJobBootstrap(
            RosterdRegistryCenter center, ElasticJob elasticJob, JobConfiguration jobConfig, String handlerType) {
        this(center, center.adapt(elasticJob, handlerType, jobConfig));
    }

    private OneOffJobBootstrap(RosterdRegistryCenter center, AdaptedJob job) {
        if (job.hasCron()) {
            throw new IllegalArgumentException(
                    "job '" + job.name() + "' has a cron expression: use ScheduleJobBootstrap");
        }
        this.center = center;
        this.job = job;
        center.register(job);
    }

    /**
     * Triggers all items, wherever they are. With credentials this process needs an operator's: a worker's may not trigger.
     *
     * @throws JobTriggerException if the coordinator does not trigger the job
     */
    public void execute() {
        center.trigger(job);
    }

    @Override
    public void shutdown() {
        center.remove(job);
    }
}
