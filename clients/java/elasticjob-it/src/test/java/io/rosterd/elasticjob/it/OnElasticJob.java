package io.rosterd.elasticjob.it;

import io.rosterd.harness.Wait;
import org.apache.shardingsphere.elasticjob.annotation.ElasticJobConfiguration;
import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.lite.api.bootstrap.impl.OneOffJobBootstrap;
import org.apache.shardingsphere.elasticjob.lite.api.bootstrap.impl.ScheduleJobBootstrap;
import org.apache.shardingsphere.elasticjob.reg.zookeeper.ZookeeperConfiguration;
import org.apache.shardingsphere.elasticjob.reg.zookeeper.ZookeeperRegistryCenter;

/** The released Elastic-Job. */
final class OnElasticJob implements Scheduler {
    private final ZookeeperRegistryCenter center;

    OnElasticJob(String servers, String namespace) {
        center = new ZookeeperRegistryCenter(new ZookeeperConfiguration(servers, namespace));
        center.init();
    }

    @Override
    public OneOff oneOff(ElasticJob job, JobConfiguration config) {
        return oneOff(config.getJobName(), new OneOffJobBootstrap(center, job, config));
    }

    @Override
    public OneOff oneOff(ElasticJob annotated) {
        String name = annotated
                .getClass()
                .getAnnotation(ElasticJobConfiguration.class)
                .jobName();
        return oneOff(name, new OneOffJobBootstrap(center, annotated));
    }

    @Override
    public OneOff oneOff(String type, JobConfiguration config) {
        return oneOff(config.getJobName(), new OneOffJobBootstrap(center, type, config));
    }

    private OneOff oneOff(String job, OneOffJobBootstrap bootstrap) {
        awaitItems(job);
        return new OneOff() {
            @Override
            public void execute() {
                bootstrap.execute();
            }

            @Override
            public void shutdown() {
                bootstrap.shutdown();
            }
        };
    }

    @Override
    public Runnable schedule(ElasticJob job, JobConfiguration config) {
        ScheduleJobBootstrap bootstrap = new ScheduleJobBootstrap(center, job, config);
        awaitItems(config.getJobName());
        bootstrap.schedule();
        return bootstrap::shutdown;
    }

    /**
     * Waits until the job's first fire has items. Elastic-Job hears of its own new instance from ZooKeeper, and marks only
     * then that items are to be given to instances: on a busy machine a fire before that has none.
     */
    private void awaitItems(String job) {
        Wait.until(
                "items are to be given to instances",
                () -> center.isExisted("/" + job + "/leader/sharding/necessary")
                        || center.isExisted("/" + job + "/sharding/0/instance"));
    }

    @Override
    public void close() {
        center.close();
    }
}
