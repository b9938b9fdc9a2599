package io.rosterd.elasticjob.it;

import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;
import org.apache.shardingsphere.elasticjob.lite.api.listener.AbstractDistributeOnceElasticJobListener;

/** Writes down each fire of the cluster. */
public class OnceListener extends AbstractDistributeOnceElasticJobListener {
    private static final long TIMEOUT_MILLISECONDS = 20_000;

    /** For Elastic-Job's service loader. */
    public OnceListener() {
        super(TIMEOUT_MILLISECONDS, TIMEOUT_MILLISECONDS);
    }

    @Override
    public void doBeforeJobExecutedAtLastStarted(ShardingContexts contexts) {
        Journal.write("all started " + Journal.text(contexts));
    }

    @Override
    public void doAfterJobExecutedAtLastCompleted(ShardingContexts contexts) {
        Journal.write("all completed " + Journal.text(contexts));
    }

    @Override
    public String getType() {
        return "ONCE";
    }
}
