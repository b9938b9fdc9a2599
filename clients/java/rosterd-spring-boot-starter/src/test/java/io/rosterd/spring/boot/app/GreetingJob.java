package io.rosterd.spring.boot.app;

import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;
import org.springframework.stereotype.Component;

/** A job that is a bean. */
@Component
public class GreetingJob implements SimpleJob {
    private final Greeter greeter;

    public GreetingJob(Greeter greeter) {
        this.greeter = greeter;
    }

    @Override
    public void execute(ShardingContext context) {
        greeter.greet(context.getJobName() + " " + context.getShardingParameter());
    }
}
