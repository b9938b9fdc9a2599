package io.rosterd.elasticjob.it;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.dataflow.job.DataflowJob;

/** A dataflow that has three batches for each item. */
public class OrdersJob implements DataflowJob<String> {
    private static final int BATCHES = 3;

    private final Map<Integer, Integer> fetched = new ConcurrentHashMap<>();

    @Override
    public List<String> fetchData(ShardingContext context) {
        int batch = fetched.merge(context.getShardingItem(), 1, Integer::sum);
        List<String> data = batch > BATCHES ? List.of() : List.of("order " + batch + "a", "order " + batch + "b");
        Journal.write("fetch " + data + " " + Journal.text(context));
        return data;
    }

    @Override
    public void processData(ShardingContext context, List<String> data) {
        Journal.write("process " + data + " " + Journal.text(context));
    }
}
