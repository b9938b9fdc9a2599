package io.rosterd.elasticjob;

import io.rosterd.client.RosterdException;
import io.rosterd.client.Worker;
import io.rosterd.client.WorkerBuilder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The coordinators, for the jobs of this process: replaces Elastic-Job's {@code ZookeeperRegistryCenter}.
 *
 * <p>One stream to a coordinator carries all jobs. It is opened with the first job that is scheduled, and kept until
 * {@link #close()}, a signal, or an operator ends it.
 */
public final class RosterdRegistryCenter implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(RosterdRegistryCenter.class);

    private final RosterdConfiguration config;
    private final List<AdaptedJob> jobs = new ArrayList<>();
    private final AdaptedJob.LocalWorker local = new Local();
    private volatile Worker worker;
    private boolean closed;

    /**
     * A registry center. Nothing is connected yet.
     *
     * @param config where the coordinators are
     */
    public RosterdRegistryCenter(RosterdConfiguration config) {
        this.config = Objects.requireNonNull(config, "config");
    }

    /** Exists because programs written for Elastic-Job call it: connecting waits for the first job. */
    public void init() {
        // The stream carries the jobs' registrations, so connecting before the first of them has no purpose.
    }

    /** {@return whether this process is attached to a coordinator, has a valid lease, and is not leaving} */
    public boolean isReady() {
        Worker asked = worker;
        return asked != null && asked.isReady();
    }

    /** {@return whether a job of this process was registered} */
    public boolean isStarted() {
        return worker != null;
    }

    /** {@return this process's id under each of its jobs, once a coordinator has welcomed it} */
    public Optional<String> instanceId() {
        Worker asked = worker;
        return asked == null ? Optional.empty() : asked.instanceId();
    }

    /** {@return why the process no longer works for any job, if that was an error} */
    public Optional<RosterdException> failure() {
        Worker asked = worker;
        return asked == null ? Optional.empty() : asked.failure();
    }

    /** Leaves in order: runs have the drain timeout, then they are interrupted and handed back. Returns once that is done. */
    @Override
    public void close() {
        Worker leaving;
        synchronized (this) {
            closed = true;
            leaving = worker;
        }
        // Handlers and callbacks that end now call this object for their instance.
        if (leaving != null) leaving.close();
        synchronized (this) {
            jobs.forEach(AdaptedJob::close);
            jobs.clear();
        }
    }

    AdaptedJob adapt(ElasticJob elasticJob, String handlerType, JobConfiguration jobConfig) {
        return AdaptedJob.of(elasticJob, handlerType, jobConfig, local, gather());
    }

    AdaptedJob adapt(String elasticJobType, JobConfiguration jobConfig) {
        return AdaptedJob.of(elasticJobType, jobConfig, local, gather());
    }

    private Duration gather() {
        return Duration.ofMillis(config.getGatherMilliseconds());
    }

    synchronized void register(AdaptedJob job) {
        if (closed) throw new IllegalStateException("job '" + job.name() + "': the registry center is closed");
        job.file().notes().forEach(note -> LOG.warn("job '{}': {}", job.name(), note));
        if (worker == null || hasEnded(worker)) {
            // A worker ends with its last job, or if all were refused. Jobs that were not removed are registered again.
            Worker next = builder().build();
            jobs.forEach(each -> add(each, next));
            add(job, next);
            next.start();
            worker = next;
        } else {
            add(job, worker);
        }
        jobs.add(job);
    }

    private static void add(AdaptedJob job, Worker worker) {
        worker.job(job.name(), job::run, job.options());
    }

    synchronized void remove(AdaptedJob job) {
        if (!jobs.remove(job)) return;
        worker.removeJob(job.name());
        // Runs in flight go on, on the job's threads, which end by themselves.
        job.close();
    }

    /** Triggers with the operator's credential, if there is one; it opens no stream. */
    void trigger(AdaptedJob job) {
        Worker asking = worker;
        if (isSet(config.getOperatorCredential())) {
            asking = builder().credential(config.getOperatorCredential()).build();
        }
        if (asking == null) throw new IllegalStateException("job '" + job.name() + "' is not registered");
        JobTrigger.fire(job.name(), asking::openChannel);
    }

    /** What jobs need to know about this process. */
    private final class Local implements AdaptedJob.LocalWorker {
        @Override
        public Set<Integer> itemsOf(String job) {
            Worker asked = worker;
            return asked == null ? Set.of() : asked.items(job);
        }

        @Override
        public String instanceId() {
            Worker asked = worker;
            return asked == null ? "" : asked.instanceId().orElse("");
        }
    }

    private WorkerBuilder builder() {
        WorkerBuilder builder = Worker.builder()
                .slots(config.getSlots())
                .drainTimeout(Duration.ofMillis(config.getDrainTimeoutMilliseconds()))
                .leaveTimeout(Duration.ofMillis(config.getLeaveTimeoutMilliseconds()))
                .handlesSignals(config.isHandlesSignals());
        if (isSet(config.getServerLists())) builder.server(config.getServerLists());
        if (isSet(config.getNamespace())) builder.namespace(config.getNamespace());
        if (isSet(config.getCredential())) builder.credential(config.getCredential());
        if (config.isInsecureCredential()) builder.insecureCredential(true);
        if (config.getRootCertificates() != null) builder.rootCertificates(config.getRootCertificates());
        if (config.getClientCertificate() != null) {
            builder.clientCertificate(config.getClientCertificate(), config.getClientKey());
        }
        if (isSet(config.getAddress())) builder.address(config.getAddress());
        config.getLabels().forEach(builder::label);
        return builder;
    }

    private static boolean hasEnded(Worker worker) {
        try {
            return worker.awaitTermination(Duration.ZERO);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private static boolean isSet(String text) {
        return text != null && !text.isEmpty();
    }
}
