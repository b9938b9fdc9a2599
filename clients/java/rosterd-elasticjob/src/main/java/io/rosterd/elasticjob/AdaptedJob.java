package io.rosterd.elasticjob;

import io.rosterd.client.Fire;
import io.rosterd.client.JobOptions;
import io.rosterd.client.Run;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Supplier;
import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.dataflow.job.DataflowJob;
import org.apache.shardingsphere.elasticjob.error.handler.JobErrorHandlerPropertiesValidator;
import org.apache.shardingsphere.elasticjob.infra.context.ShardingItemParameters;
import org.apache.shardingsphere.elasticjob.infra.listener.ElasticJobListener;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;
import org.apache.shardingsphere.elasticjob.infra.spi.ElasticJobServiceLoader;

/** A job of Elastic-Job as a worker's handler, with its job file and callbacks. */
final class AdaptedJob {
    static {
        // Once: a second thread would find the registry half filled.
        ElasticJobServiceLoader.registerTypedService(JobErrorHandlerPropertiesValidator.class);
    }

    private final JobConfiguration config;
    private final String handlerType;
    private final JobFile file;
    private final ItemExecution execution;
    private final DistributeOnce distributeOnce;
    private final LocalWorker worker;
    private final ClassLoader loader = Thread.currentThread().getContextClassLoader();

    /** Null: the job has no listeners, and its items run independently. */
    private final Batches batches;

    private int inFlight;
    private boolean closing;

    /** What a job needs to know about its process. */
    interface LocalWorker {
        /** The items of a job that this process owns now. */
        Set<Integer> itemsOf(String job);

        /** The process's id under its jobs. */
        String instanceId();
    }

    /** A job with a class. */
    static AdaptedJob of(
            ElasticJob job, String handlerType, JobConfiguration config, LocalWorker worker, Duration gather) {
        Objects.requireNonNull(job, "elasticJob");
        Map<String, Object> kind = job instanceof DataflowJob ? Map.of("kind", "dataflow") : Map.of();
        Supplier<Set<Integer>> owned = () -> worker.itemsOf(config.getJobName());
        return new AdaptedJob(config, handlerType, kind, ItemExecution.of(job, config, owned), worker, owned, gather);
    }

    /** A job that only has a type. */
    static AdaptedJob of(String type, JobConfiguration config, LocalWorker worker, Duration gather) {
        Objects.requireNonNull(type, "elasticJobType");
        Map<String, Object> kind = "SCRIPT".equals(type) ? Map.of("kind", "command") : Map.of();
        Supplier<Set<Integer>> owned = () -> worker.itemsOf(config.getJobName());
        return new AdaptedJob(config, type, kind, ItemExecution.of(type, config, owned), worker, owned, gather);
    }

    private AdaptedJob(
            JobConfiguration config,
            String handlerType,
            Map<String, Object> kind,
            ItemExecution execution,
            LocalWorker worker,
            Supplier<Set<Integer>> owned,
            Duration gather) {
        this.config = config;
        this.handlerType = handlerType;
        this.execution = execution;
        this.worker = worker;
        validateErrorHandler();
        List<ElasticJobListener> all = Listeners.find(config.getJobListenerTypes());
        Listeners listeners = new Listeners(
                all.stream().filter(each -> !DistributeOnce.isOne(each)).toList());
        batches = listeners.isEmpty() ? null : new Batches(config.getJobName(), execution, listeners, owned, gather);
        distributeOnce = all.stream().anyMatch(DistributeOnce::isOne) ? DistributeOnce.of(all) : null;
        Map<String, Object> policies = new LinkedHashMap<>(kind);
        if (distributeOnce != null) {
            policies.put("guarantee", distributeOnce.guarantee("THROW".equals(config.getJobErrorHandlerType())));
        }
        file = JobFile.of(config, handlerType, policies);
        if (distributeOnce != null && !hasCron()) {
            file.note("its listeners of the whole cluster are not called: runs that are triggered by hand announce"
                    + " nothing");
        }
    }

    /** Like Elastic-Job, rejects an error handler without its properties early, not at the first error. */
    private void validateErrorHandler() {
        if (config.getJobErrorHandlerType() == null) return;
        ElasticJobServiceLoader.newTypedServiceInstance(
                        JobErrorHandlerPropertiesValidator.class, config.getJobErrorHandlerType(), config.getProps())
                .ifPresent(validator -> validator.validate(config.getProps()));
    }

    String name() {
        return config.getJobName();
    }

    boolean hasCron() {
        return config.getCron() != null && !config.getCron().isEmpty();
    }

    JobFile file() {
        return file;
    }

    /** The options with which a worker registers it. */
    JobOptions options() {
        JobOptions.Builder options = JobOptions.builder()
                .handlerType(handlerType)
                .config(file.text())
                .overwrite(file.overwrites());
        if (distributeOnce != null) {
            options.onAllStarted(fire -> distributeOnce.allStarted(contexts(fire)));
            options.onAllCompleted(fire -> distributeOnce.allCompleted(contexts(fire)));
        }
        return options.build();
    }

    /** The items that this process owns, as Elastic-Job passes them to its listeners. */
    private ShardingContexts contexts(Fire fire) {
        Map<Integer, String> configured = new ShardingItemParameters(config.getShardingItemParameters()).getMap();
        Map<Integer, String> parameters = new HashMap<>();
        worker.itemsOf(fire.job()).forEach(item -> parameters.put(item, configured.get(item)));
        return new ShardingContexts(
                Contexts.taskId(fire.job(), parameters.keySet(), worker.instanceId()),
                fire.job(),
                config.getShardingTotalCount(),
                config.getJobParameter(),
                parameters);
    }

    /** Runs an item; the run fails with what user code throws. */
    Object run(Run run) throws Exception {
        enter();
        try {
            task(run).await();
            return null;
        } catch (ItemExecution.HandlerThrew both) {
            throw unwrapped(both);
        } finally {
            leave();
        }
    }

    private ItemTask task(Run run) {
        Carried carried = Carried.of(run, loader);
        if (batches != null) return batches.join(run, carried);
        ItemTask task = new ItemTask(run, carried, ItemTask::release);
        ShardingContexts contexts = Contexts.of(run, worker.itemsOf(run.job()));
        task.give(each -> execution.execute(each, contexts));
        execution.pool().execute(task);
        return task;
    }

    private static Exception unwrapped(ItemExecution.HandlerThrew both) {
        if (both.getCause() instanceof Error error) throw error;
        return both.getCause() instanceof Exception exception ? exception : both;
    }

    private synchronized void enter() {
        if (closing && inFlight == 0) {
            throw new RejectedExecutionException("job '" + name() + "' was shut down in this process");
        }
        inFlight++;
    }

    private void leave() {
        boolean over;
        synchronized (this) {
            inFlight--;
            over = closing && inFlight == 0;
        }
        if (over) end();
    }

    /** Releases threads and error handler once no run is in flight. */
    void close() {
        boolean over;
        synchronized (this) {
            if (closing) return;
            closing = true;
            over = inFlight == 0;
        }
        if (over) end();
    }

    private void end() {
        if (batches != null) batches.close();
        execution.close();
    }
}
