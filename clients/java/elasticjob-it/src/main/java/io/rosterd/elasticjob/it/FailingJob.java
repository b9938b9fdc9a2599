package io.rosterd.elasticjob.it;

import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;

/** A job whose last item fails. */
public class FailingJob implements SimpleJob {
    @Override
    public void execute(ShardingContext context) {
        Journal.write("execute " + Journal.text(context));
        if (context.getShardingItem() == context.getShardingTotalCount() - 1) {
            throw new IllegalStateException("item " + context.getShardingItem() + " has no data");
        }
    }
}
