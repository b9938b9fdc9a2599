package io.rosterd.elasticjob;

import io.rosterd.client.Run;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;

/** Elastic-Job's {@link ShardingContexts}, made of runs. */
final class Contexts {
    private Contexts() {}

    /**
     * For a single run. Its task id names all items that this process owns, as Elastic-Job's does.
     *
     * @param run the run
     * @param owned the items of the job here
     */
    static ShardingContexts of(Run run, Set<Integer> owned) {
        Set<Integer> named = owned.contains(run.item()) ? owned : Set.of(run.item());
        return new ShardingContexts(
                taskId(run.job(), named, run.instanceId()),
                run.job(),
                run.total(),
                run.jobParameter(),
                parameters(List.of(run)));
    }

    /** For runs of one fire. */
    static ShardingContexts of(Collection<Run> runs) {
        Run first = runs.iterator().next();
        Map<Integer, String> parameters = parameters(runs);
        return new ShardingContexts(
                taskId(first.job(), parameters.keySet(), first.instanceId()),
                first.job(),
                first.total(),
                first.jobParameter(),
                parameters);
    }

    static String taskId(String job, Collection<Integer> items, String instanceId) {
        String list = new TreeSet<>(items).stream().map(String::valueOf).collect(Collectors.joining(","));
        return String.join("@-@", job, list, "READY", instanceId);
    }

    /** In Elastic-Job an item without a parameter has null, not an empty text. */
    private static Map<Integer, String> parameters(Collection<Run> runs) {
        Map<Integer, String> parameters = new HashMap<>();
        for (Run run : runs) {
            parameters.put(run.item(), run.itemParameter().isEmpty() ? null : run.itemParameter());
        }
        return parameters;
    }
}
