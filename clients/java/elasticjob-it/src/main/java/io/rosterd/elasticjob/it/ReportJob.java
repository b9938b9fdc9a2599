package io.rosterd.elasticjob.it;

import org.apache.shardingsphere.elasticjob.annotation.ElasticJobConfiguration;
import org.apache.shardingsphere.elasticjob.annotation.ElasticJobProp;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;

/** A plain job. */
@ElasticJobConfiguration(
        jobName = "annotated",
        shardingTotalCount = 2,
        shardingItemParameters = "0=Beijing,1=Shanghai",
        jobParameter = "daily",
        props = @ElasticJobProp(key = "color", value = "green"))
public class ReportJob implements SimpleJob {
    @Override
    public void execute(ShardingContext context) {
        Journal.write("execute " + Journal.text(context));
    }
}
