package io.rosterd.elasticjob;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.shardingsphere.elasticjob.error.handler.JobErrorHandler;
import org.apache.shardingsphere.elasticjob.error.handler.JobErrorHandlerPropertiesValidator;
import org.apache.shardingsphere.elasticjob.infra.listener.ElasticJobListener;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;
import org.apache.shardingsphere.elasticjob.lite.api.listener.AbstractDistributeOnceElasticJobListener;

/** What listeners, error handlers and jobs have seen, by job; static since Elastic-Job makes the former two itself. */
public final class Recorded {
    private static final Map<String, List<String>> LINES = new ConcurrentHashMap<>();

    private Recorded() {}

    static List<String> of(String job) {
        return LINES.computeIfAbsent(job, unused -> new CopyOnWriteArrayList<>());
    }

    static void add(String job, String line) {
        of(job).add(line);
    }

    /** Of type RECORD. */
    public static final class Listener implements ElasticJobListener {
        /** The thread of the last call: a listener may keep state on it from before to after. */
        private Thread thread;

        @Override
        public void beforeJobExecuted(ShardingContexts contexts) {
            thread = Thread.currentThread();
            add(contexts.getJobName(), "before " + contexts.getShardingItemParameters());
        }

        @Override
        public void afterJobExecuted(ShardingContexts contexts) {
            String where = thread == Thread.currentThread() ? "" : " on another thread";
            add(contexts.getJobName(), "after " + contexts.getShardingItemParameters() + where);
        }

        @Override
        public String getType() {
            return "RECORD";
        }
    }

    /** Of type REFUSE. */
    public static final class Refusing implements ElasticJobListener {
        @Override
        public void beforeJobExecuted(ShardingContexts contexts) {
            throw new IllegalStateException("not today");
        }

        @Override
        public void afterJobExecuted(ShardingContexts contexts) {
            throw new IllegalStateException("not today either");
        }

        @Override
        public String getType() {
            return "REFUSE";
        }
    }

    /** Of type ONCE. */
    public static final class Once extends AbstractDistributeOnceElasticJobListener {
        /** For Elastic-Job's service loader. */
        public Once() {
            super(5_000, 0);
        }

        @Override
        public void doBeforeJobExecutedAtLastStarted(ShardingContexts contexts) {
            add(contexts.getJobName(), "all started " + contexts.getShardingItemParameters());
        }

        @Override
        public void doAfterJobExecutedAtLastCompleted(ShardingContexts contexts) {
            add(contexts.getJobName(), "all completed " + contexts.getShardingItemParameters());
        }

        @Override
        public String getType() {
            return "ONCE";
        }
    }

    /** Of type RECORD: requires a recipient, if it is configured to write to one. */
    public static final class Validator implements JobErrorHandlerPropertiesValidator {
        @Override
        public void validate(Properties props) {
            if (props.getProperty("mail.to", "ann").isEmpty()) throw new IllegalArgumentException("mail.to is empty");
        }

        @Override
        public String getType() {
            return "RECORD";
        }
    }

    /** Of type RECORD. */
    public static final class Handler implements JobErrorHandler {
        private Properties props;

        @Override
        public void init(Properties props) {
            this.props = props;
        }

        @Override
        public void handleException(String jobName, Throwable cause) {
            add(jobName, "error " + cause.getMessage() + " to " + props.getProperty("mail.to"));
        }

        @Override
        public String getType() {
            return "RECORD";
        }
    }
}
