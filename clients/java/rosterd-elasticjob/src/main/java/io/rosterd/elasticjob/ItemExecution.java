package io.rosterd.elasticjob;

import io.rosterd.client.Run;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.dataflow.job.DataflowJob;
import org.apache.shardingsphere.elasticjob.error.handler.JobErrorHandler;
import org.apache.shardingsphere.elasticjob.executor.context.ExecutorContext;
import org.apache.shardingsphere.elasticjob.executor.item.JobItemExecutor;
import org.apache.shardingsphere.elasticjob.executor.item.JobItemExecutorFactory;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;

/**
 * Executes items of one job with parts of the released Elastic-Job: its item executors, the job's thread pool and its error
 * handler, found by their types.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
final class ItemExecution {
    private final ElasticJob job;
    private final JobItemExecutor executor;
    private final JobConfiguration config;
    private final ExecutorContext extensions;
    private final Supplier<Set<Integer>> owned;
    private final Map<String, String> props;

    private ItemExecution(
            ElasticJob job, JobItemExecutor executor, JobConfiguration config, Supplier<Set<Integer>> owned) {
        this.job = job;
        this.executor = executor;
        this.config = config;
        this.extensions = new ExecutorContext(config);
        this.owned = owned;
        this.props = config.getProps().stringPropertyNames().stream()
                .filter(name -> !name.startsWith(JobFile.POLICY_PREFIX))
                .collect(Collectors.toMap(name -> name, config.getProps()::getProperty));
    }

    /** Of a job with a class. */
    static ItemExecution of(ElasticJob job, JobConfiguration config, Supplier<Set<Integer>> owned) {
        return new ItemExecution(job, JobItemExecutorFactory.getExecutor(job.getClass()), config, owned);
    }

    /** Of a job that only has a type. */
    static ItemExecution of(String type, JobConfiguration config, Supplier<Set<Integer>> owned) {
        return new ItemExecution(null, JobItemExecutorFactory.getExecutor(type), config, owned);
    }

    /** Where items run. */
    ExecutorService pool() {
        return extensions.get(ExecutorService.class);
    }

    /**
     * Executes an item on the calling thread.
     *
     * @throws Throwable what user code threw, or the error handler instead; the latter as {@link HandlerThrew}
     */
    void execute(Run run, ShardingContexts contexts) throws Throwable {
        JobConfiguration current = current(run);
        try {
            executor.process(
                    counted(run),
                    current,
                    new RunFacade(run, current, contexts, owned),
                    contexts.createShardingContext(run.item()));
        } catch (Throwable thrown) {
            // Elastic-Job does not cancel runs: its error handlers must not report this one as an error.
            if (run.cancelled()) throw thrown;
            try {
                handle(current, thrown);
            } catch (Throwable second) {
                throw new HandlerThrew(thrown);
            }
            throw thrown;
        }
    }

    /** Passes an error to the job's error handler, which may throw. */
    void handle(Throwable thrown) {
        handle(config, thrown);
    }

    private void handle(JobConfiguration current, Throwable thrown) {
        extensions.reloadIfNecessary(current);
        extensions.get(JobErrorHandler.class).handleException(current.getJobName(), thrown);
    }

    /** Like Elastic-Job, which reads the configuration anew for each fire: changes at the coordinator apply. */
    private JobConfiguration current(Run run) {
        boolean same = run.total() == config.getShardingTotalCount()
                && run.jobParameter().equals(config.getJobParameter())
                && run.props().equals(props);
        return same ? config : Configurations.with(config, run.total(), run.jobParameter(), run.props());
    }

    private ElasticJob counted(Run run) {
        return job instanceof DataflowJob dataflow ? new Counted(dataflow, run) : job;
    }

    void close() {
        extensions.shutdown();
    }

    /** The error handler has thrown as well: if Elastic-Job calls it on a job's only thread, that ends the whole fire. */
    static final class HandlerThrew extends Exception {
        private static final long serialVersionUID = 1L;

        HandlerThrew(Throwable thrown) {
            super(thrown.toString(), thrown);
        }
    }

    /** Counts the records that were processed. */
    private record Counted(DataflowJob flow, Run run) implements DataflowJob {
        @Override
        public List fetchData(ShardingContext context) {
            return flow.fetchData(context);
        }

        @Override
        public void processData(ShardingContext context, List data) {
            int size = data.size();
            flow.processData(context, data);
            run.count(size, 0);
        }
    }
}
