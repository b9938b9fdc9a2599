package io.rosterd.spring.boot.app;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.shardingsphere.elasticjob.infra.listener.ElasticJobListener;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;

/** Of type APP. */
public class AppListener implements ElasticJobListener {
    public static final List<String> CALLS = new CopyOnWriteArrayList<>();

    @Override
    public void beforeJobExecuted(ShardingContexts contexts) {
        CALLS.add("before " + contexts.getJobName());
    }

    @Override
    public void afterJobExecuted(ShardingContexts contexts) {
        CALLS.add("after " + contexts.getJobName());
    }

    @Override
    public String getType() {
        return "APP";
    }
}
