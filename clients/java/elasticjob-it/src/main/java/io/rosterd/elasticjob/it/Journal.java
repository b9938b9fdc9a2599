package io.rosterd.elasticjob.it;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;

/** What jobs, listeners and error handlers have seen, in order; static since Elastic-Job makes the latter two itself. */
public final class Journal {
    private static final List<String> LINES = new ArrayList<>();

    private Journal() {}

    static synchronized void write(String line) {
        LINES.add(line);
    }

    /** {@return all lines so far} */
    public static synchronized List<String> lines() {
        return List.copyOf(LINES);
    }

    /** Forgets everything. */
    public static synchronized void clear() {
        LINES.clear();
    }

    static String text(ShardingContext context) {
        return "job=" + context.getJobName() + " task=" + known(context.getTaskId()) + " item="
                + context.getShardingItem() + "/"
                + context.getShardingTotalCount() + " parameter=" + context.getShardingParameter() + " jobParameter="
                + context.getJobParameter();
    }

    static String text(ShardingContexts contexts) {
        Map<Integer, String> items = new TreeMap<>(contexts.getShardingItemParameters());
        return "job=" + contexts.getJobName() + " task=" + known(contexts.getTaskId()) + " items=" + items + "/"
                + contexts.getShardingTotalCount() + " jobParameter=" + contexts.getJobParameter();
    }

    /**
     * A task id without the instance, which differs in each process: {@code job@-@items@-@READY@-@address@-@unique}.
     */
    private static String known(String taskId) {
        String[] parts = taskId.split("@-@");
        if (parts.length != 5) throw new AssertionError("not a task id of Elastic-Job: " + taskId);
        return parts[0] + "@-@" + parts[1] + "@-@" + parts[2];
    }
}
