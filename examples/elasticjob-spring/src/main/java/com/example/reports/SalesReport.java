package com.example.reports;

import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;
import org.springframework.stereotype.Component;

/** One report for each city. */
@Component
public class SalesReport implements SimpleJob {
    private final Ledger ledger;

    public SalesReport(Ledger ledger) {
        this.ledger = ledger;
    }

    @Override
    public void execute(ShardingContext context) {
        ledger.add(context.getJobParameter() + " report of " + context.getShardingParameter() + " ("
                + context.getShardingItem() + " of " + context.getShardingTotalCount() + ")");
    }
}
