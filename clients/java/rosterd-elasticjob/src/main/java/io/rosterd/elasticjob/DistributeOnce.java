package io.rosterd.elasticjob;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.shardingsphere.elasticjob.infra.listener.ElasticJobListener;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;
import org.apache.shardingsphere.elasticjob.lite.api.listener.AbstractDistributeOnceElasticJobListener;

/**
 * Listeners that are called once per fire in the whole cluster: Elastic-Job's counting of items through ZooKeeper becomes the
 * job's {@code guarantee}, and its two methods become the callbacks.
 *
 * <p>Their class is in {@code elasticjob-lite-core}, which a program has if it has such a listener; nothing else of it is used.
 */
final class DistributeOnce {
    private static final String LISTENER =
            "org.apache.shardingsphere.elasticjob.lite.api.listener.AbstractDistributeOnceElasticJobListener";

    /** The longest that a guarantee waits; Elastic-Job's "for ever". */
    private static final long LONGEST_MILLISECONDS = 86_400_000;

    private final List<AbstractDistributeOnceElasticJobListener> listeners;

    private DistributeOnce(List<AbstractDistributeOnceElasticJobListener> listeners) {
        this.listeners = listeners;
    }

    /** Whether a listener is of this kind. */
    static boolean isOne(ElasticJobListener listener) {
        for (Class<?> each = listener.getClass(); each != null; each = each.getSuperclass()) {
            if (each.getName().equals(LISTENER)) return true;
        }
        return false;
    }

    /** Those of a job's listeners that are of this kind; there must be one. */
    static DistributeOnce of(List<ElasticJobListener> all) {
        List<AbstractDistributeOnceElasticJobListener> listeners = new ArrayList<>();
        all.stream()
                .filter(DistributeOnce::isOne)
                .sorted(Comparator.comparingInt(ElasticJobListener::order))
                .forEach(each -> listeners.add((AbstractDistributeOnceElasticJobListener) each));
        return new DistributeOnce(listeners);
    }

    /**
     * The job file's {@code guarantee} for them.
     *
     * @param throwing whether the job's error handler is THROW: then a fire whose items have not all started in time does not
     *     run, otherwise it runs, as in Elastic-Job
     */
    Map<String, Object> guarantee(boolean throwing) {
        long longest = listeners.stream()
                .mapToLong(each -> Math.max(
                        timeout(each, "startedTimeoutMilliseconds"), timeout(each, "completedTimeoutMilliseconds")))
                .max()
                .orElse(LONGEST_MILLISECONDS);
        Map<String, Object> guarantee = new LinkedHashMap<>();
        guarantee.put("started", true);
        guarantee.put("completed", true);
        guarantee.put("timeout_ms", Math.min(longest, LONGEST_MILLISECONDS));
        guarantee.put("on_timeout", throwing ? "skip" : "run");
        return guarantee;
    }

    private static long timeout(AbstractDistributeOnceElasticJobListener listener, String name) {
        try {
            Field field = AbstractDistributeOnceElasticJobListener.class.getDeclaredField(name);
            field.setAccessible(true);
            return field.getLong(listener);
        } catch (ReflectiveOperationException other) {
            throw new IllegalStateException("another Elastic-Job than 3.0.x: its listener has no " + name, other);
        }
    }

    void allStarted(ShardingContexts contexts) {
        listeners.forEach(each -> each.doBeforeJobExecutedAtLastStarted(contexts));
    }

    void allCompleted(ShardingContexts contexts) {
        listeners.forEach(each -> each.doAfterJobExecutedAtLastCompleted(contexts));
    }
}
