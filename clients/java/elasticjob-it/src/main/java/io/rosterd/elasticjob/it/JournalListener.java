package io.rosterd.elasticjob.it;

import org.apache.shardingsphere.elasticjob.infra.listener.ElasticJobListener;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;

/** Writes down each fire of a process. */
public class JournalListener implements ElasticJobListener {
    @Override
    public void beforeJobExecuted(ShardingContexts contexts) {
        Journal.write("before " + Journal.text(contexts));
    }

    @Override
    public void afterJobExecuted(ShardingContexts contexts) {
        Journal.write("after " + Journal.text(contexts));
    }

    @Override
    public int order() {
        return 1;
    }

    @Override
    public String getType() {
        return "JOURNAL";
    }
}
