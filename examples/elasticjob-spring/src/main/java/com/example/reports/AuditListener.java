package com.example.reports;

import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.shardingsphere.elasticjob.infra.listener.ElasticJobListener;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;

/** Of type AUDIT; Elastic-Job creates it itself, so it is not a bean. */
public class AuditListener implements ElasticJobListener {
    private static final List<String> LINES = new CopyOnWriteArrayList<>();

    /** {@return what was audited so far} */
    public static List<String> lines() {
        return LINES;
    }

    @Override
    public void beforeJobExecuted(ShardingContexts contexts) {
        LINES.add("begin " + contexts.getJobName() + " " + new TreeMap<>(contexts.getShardingItemParameters()));
    }

    @Override
    public void afterJobExecuted(ShardingContexts contexts) {
        LINES.add("end " + contexts.getJobName() + " " + new TreeMap<>(contexts.getShardingItemParameters()));
    }

    @Override
    public String getType() {
        return "AUDIT";
    }
}
