package io.rosterd.spring.boot.app.scanned;

import io.rosterd.spring.boot.app.Greeter;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.shardingsphere.elasticjob.annotation.ElasticJobConfiguration;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;

/** Found by its annotation. */
@ElasticJobConfiguration(jobName = "scanned", cron = "0/1 * * * * ?", shardingTotalCount = 1, jobParameter = "here")
public class ScannedJob implements SimpleJob {
    public final List<String> seen = new CopyOnWriteArrayList<>();

    public ScannedJob(Greeter greeter) {
        greeter.greeted();
    }

    @Override
    public void execute(ShardingContext context) {
        seen.add(context.getJobParameter());
    }
}
