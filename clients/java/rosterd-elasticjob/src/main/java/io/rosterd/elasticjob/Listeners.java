package io.rosterd.elasticjob;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.shardingsphere.elasticjob.infra.listener.ElasticJobListener;
import org.apache.shardingsphere.elasticjob.infra.listener.ElasticJobListenerFactory;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;

/** The listeners of a job that are called around each fire in this process, in their order. */
final class Listeners {
    private final List<ElasticJobListener> listeners;

    Listeners(List<ElasticJobListener> listeners) {
        this.listeners = listeners.stream()
                .sorted(Comparator.comparingInt(ElasticJobListener::order))
                .toList();
    }

    /** Finds listeners by their types, as Elastic-Job does: with {@code META-INF/services}. */
    static List<ElasticJobListener> find(Iterable<String> types) {
        List<ElasticJobListener> found = new ArrayList<>();
        for (String type : types) {
            found.add(ElasticJobListenerFactory.createListener(type)
                    .orElseThrow(() -> new IllegalArgumentException("no job listener of type '" + type
                            + "': name its class in META-INF/services/" + ElasticJobListener.class.getName())));
        }
        return found;
    }

    boolean isEmpty() {
        return listeners.isEmpty();
    }

    void before(ShardingContexts contexts) {
        listeners.forEach(each -> each.beforeJobExecuted(contexts));
    }

    void after(ShardingContexts contexts) {
        listeners.forEach(each -> each.afterJobExecuted(contexts));
    }
}
