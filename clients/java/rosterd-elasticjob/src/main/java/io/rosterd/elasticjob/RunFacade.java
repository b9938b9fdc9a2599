package io.rosterd.elasticjob;

import io.rosterd.client.Run;
import java.util.Collection;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.executor.JobFacade;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;
import org.apache.shardingsphere.elasticjob.tracing.event.JobExecutionEvent;
import org.apache.shardingsphere.elasticjob.tracing.event.JobStatusTraceEvent.State;

/**
 * The queries of Elastic-Job's item executors about the job: its configuration, and whether a streaming dataflow must end. The
 * coordinator does what the other methods of the interface are for, and no item executor calls them.
 */
final class RunFacade implements JobFacade {
    private final Run run;
    private final JobConfiguration config;
    private final ShardingContexts contexts;
    private final Supplier<Set<Integer>> owned;
    private final boolean ownedAtStart;

    RunFacade(Run run, JobConfiguration config, ShardingContexts contexts, Supplier<Set<Integer>> owned) {
        this.run = run;
        this.config = config;
        this.contexts = contexts;
        this.owned = owned;
        this.ownedAtStart = owned.get().contains(run.item());
    }

    @Override
    public JobConfiguration loadJobConfiguration(boolean fromCache) {
        return config;
    }

    /** Whether a stream ends after this batch: the run must stop, the worker is leaving, or another worker gets the item. */
    @Override
    public boolean isNeedSharding() {
        return run.cancelled() || run.leaving() || ownedAtStart && !owned.get().contains(run.item());
    }

    @Override
    public ShardingContexts getShardingContexts() {
        return contexts;
    }

    @Override
    public void checkJobExecutionEnvironment() {}

    @Override
    public void failoverIfNecessary() {}

    @Override
    public void registerJobBegin(ShardingContexts shardingContexts) {}

    @Override
    public void registerJobCompleted(ShardingContexts shardingContexts) {}

    @Override
    public boolean misfireIfRunning(Collection<Integer> shardingItems) {
        return false;
    }

    @Override
    public void clearMisfire(Collection<Integer> shardingItems) {}

    @Override
    public boolean isExecuteMisfired(Collection<Integer> shardingItems) {
        return false;
    }

    @Override
    public void beforeJobExecuted(ShardingContexts shardingContexts) {}

    @Override
    public void afterJobExecuted(ShardingContexts shardingContexts) {}

    @Override
    public void postJobExecutionEvent(JobExecutionEvent jobExecutionEvent) {}

    @Override
    public void postJobStatusTraceEvent(String taskId, State state, String message) {}
}
