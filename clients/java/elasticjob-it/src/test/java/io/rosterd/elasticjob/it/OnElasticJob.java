package io.rosterd.elasticjob.it;

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
        return oneOff(new OneOffJobBootstrap(center, job, config));
    }

    @Override
    public OneOff oneOff(ElasticJob annotated) {
        return oneOff(new OneOffJobBootstrap(center, annotated));
    }

    @Override
    public OneOff oneOff(String type, JobConfiguration config) {
        return oneOff(new OneOffJobBootstrap(center, type, config));
    }

    private static OneOff oneOff(OneOffJobBootstrap bootstrap) {
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
        bootstrap.schedule();
        return bootstrap::shutdown;
    }

    @Override
    public void close() {
        center.close();
    }
}
