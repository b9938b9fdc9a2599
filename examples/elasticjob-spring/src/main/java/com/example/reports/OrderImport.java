package com.example.reports;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.dataflow.job.DataflowJob;
import org.springframework.stereotype.Component;

/** Imports new orders, batch by batch. */
@Component
public class OrderImport implements DataflowJob<String> {
    private static final int BATCHES = 3;

    private final Ledger ledger;
    private final Map<Integer, Integer> fetched = new ConcurrentHashMap<>();

    public OrderImport(Ledger ledger) {
        this.ledger = ledger;
    }

    @Override
    public List<String> fetchData(ShardingContext context) {
        int batch = fetched.merge(context.getShardingItem(), 1, Integer::sum);
        return batch > BATCHES ? List.of() : List.of("order " + batch);
    }

    @Override
    public void processData(ShardingContext context, List<String> data) {
        ledger.add("part " + context.getShardingItem() + ": " + data);
    }
}
