package io.rosterd.elasticjob.it;

import org.apache.shardingsphere.elasticjob.infra.listener.ElasticJobListener;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;

/** Prevents each fire from starting. */
public class RefusingListener implements ElasticJobListener {
    @Override
    public void beforeJobExecuted(ShardingContexts contexts) {
        Journal.write("refuse " + Journal.text(contexts));
        throw new IllegalStateException("the disk is full");
    }

    @Override
    public void afterJobExecuted(ShardingContexts contexts) {
        Journal.write("after the refusal " + Journal.text(contexts));
    }

    @Override
    public int order() {
        return 2;
    }

    @Override
    public String getType() {
        return "REFUSING";
    }
}
