package io.rosterd.elasticjob.it;

import io.rosterd.elasticjob.OneOffJobBootstrap;
import io.rosterd.elasticjob.RosterdConfiguration;
import io.rosterd.elasticjob.RosterdRegistryCenter;
import io.rosterd.elasticjob.ScheduleJobBootstrap;
import io.rosterd.harness.Wait;
import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;

/** The same, except for the imports and the servers. */
final class OnRosterd implements Scheduler {
    private final RosterdRegistryCenter center;

    OnRosterd(String servers, String namespace) {
        RosterdConfiguration configuration = new RosterdConfiguration(servers, namespace);
        // However busy the machine is, the items of one fire are one batch, as they are in Elastic-Job.
        configuration.setGatherMilliseconds(Wait.PATIENCE.toMillis());
        center = new RosterdRegistryCenter(configuration);
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
