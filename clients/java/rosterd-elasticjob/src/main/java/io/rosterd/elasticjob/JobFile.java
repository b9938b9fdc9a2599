package io.rosterd.elasticjob;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import java.util.TreeMap;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;

/**
 * A job file made from a {@link JobConfiguration}: Elastic-Job's field names are rosterd's, so most of it is a copy.
 *
 * <p>Fields that Elastic-Job lacks come from properties whose names begin with {@code rosterd.}: they become fields under the job
 * file's key of that name, and are not passed to the job.
 */
final class JobFile {

    /** Properties with this prefix are policies of rosterd. */
    static final String POLICY_PREFIX = "rosterd.";

    private static final Gson GSON =
            new GsonBuilder().setPrettyPrinting().disableHtmlEscaping().create();

    private final Map<String, Object> fields = new LinkedHashMap<>();

    private final List<String> notes = new ArrayList<>();

    private JobFile() {}

    /**
     * Translates.
     *
     * @param config the program's configuration of the job
     * @param handlerType the job's class, or Elastic-Job's type of a job without one
     * @param policies fields that the adapter itself adds under {@code rosterd}; properties of the job override it
     */
    static JobFile of(JobConfiguration config, String handlerType, Map<String, Object> policies) {
        JobFile file = new JobFile();
        file.schedule(config);
        file.execution(config);
        file.extensions(config);
        file.policies(config, handlerType, policies);
        return file;
    }

    private void schedule(JobConfiguration config) {
        fields.put("jobName", config.getJobName());
        putIfSet("cron", config.getCron());
        if (!isEmpty(config.getCron())) {
            fields.put("timeZone", zone(config));
        }
        fields.put("shardingTotalCount", config.getShardingTotalCount());
        putIfSet("shardingItemParameters", config.getShardingItemParameters());
        putIfSet("jobParameter", config.getJobParameter());
        putIfSet("description", config.getDescription());
        putIfSet("label", config.getLabel());
        fields.put("disabled", config.isDisabled());
        fields.put("overwrite", config.isOverwrite());
    }

    /** If no zone is set, Elastic-Job uses that of each JVM, rosterd UTC: the schedule must not change. */
    private static String zone(JobConfiguration config) {
        return isEmpty(config.getTimeZone()) ? TimeZone.getDefault().getID() : config.getTimeZone();
    }

    private void execution(JobConfiguration config) {
        boolean monitored = config.isMonitorExecution();
        fields.put("monitorExecution", monitored);
        fields.put("failover", monitored && config.isFailover());
        fields.put("misfire", monitored && config.isMisfire());
        if (!monitored && config.isFailover()) {
            notes.add("failover has no effect without monitorExecution, as in Elastic-Job");
        }
        if (!monitored && config.isMisfire()) {
            notes.add("misfire has no effect without monitorExecution: a scheduled time that comes while the item runs"
                    + " is skipped");
        }
        fields.put("maxTimeDiffSeconds", config.getMaxTimeDiffSeconds());
        fields.put("reconcileIntervalMinutes", config.getReconcileIntervalMinutes());
        putIfSet("jobShardingStrategyType", config.getJobShardingStrategyType());
    }

    private void extensions(JobConfiguration config) {
        putIfSet("jobExecutorServiceHandlerType", config.getJobExecutorServiceHandlerType());
        putIfSet("jobErrorHandlerType", config.getJobErrorHandlerType());
        if (!config.getJobListenerTypes().isEmpty()) {
            fields.put("jobListenerTypes", new ArrayList<>(config.getJobListenerTypes()));
        }
        if (config.isStaticSharding()) {
            fields.put("staticSharding", true);
            notes.add("staticSharding has no effect: items of a worker that is gone always move; with the property"
                    + " rosterd.strategy=STICKY no others do");
        }
        for (Object each : config.getExtraConfigurations()) {
            notes.add(each.getClass().getSimpleName()
                    + " has no effect: the coordinator keeps the history of all runs (`rosterd runs`)");
        }
    }

    private void policies(JobConfiguration config, String handlerType, Map<String, Object> added) {
        Map<String, String> props = new TreeMap<>();
        Map<String, Object> policies = new LinkedHashMap<>();
        policies.put("handler", handlerType);
        policies.putAll(added);
        for (String name : config.getProps().stringPropertyNames()) {
            String value = config.getProps().getProperty(name);
            if (name.startsWith(POLICY_PREFIX)) {
                nest(policies, name.substring(POLICY_PREFIX.length()), value);
            } else {
                props.put(name, value);
            }
        }
        if (!props.isEmpty()) {
            fields.put("props", props);
        }
        fields.put("rosterd", policies);
    }

    /** {@code retries.max_attempts} is the field {@code max_attempts} of the mapping {@code retries}. */
    @SuppressWarnings("unchecked")
    private static void nest(Map<String, Object> policies, String path, String value) {
        Map<String, Object> at = policies;
        String[] names = path.split("\\.");
        for (int i = 0; i < names.length - 1; i++) {
            Object inner = at.computeIfAbsent(names[i], unused -> new LinkedHashMap<String, Object>());
            if (!(inner instanceof Map)) {
                throw new IllegalArgumentException(
                        "property " + POLICY_PREFIX + path + ": " + names[i] + " is a value already");
            }
            at = (Map<String, Object>) inner;
        }
        at.put(names[names.length - 1], typed(value));
    }

    private static Object typed(String value) {
        if ("true".equals(value) || "false".equals(value)) {
            return Boolean.valueOf(value);
        }
        return value.matches("-?\\d{1,18}") ? (Object) Long.valueOf(value) : value;
    }

    private void putIfSet(String field, String value) {
        if (!isEmpty(value)) {
            fields.put(field, value);
        }
    }

    private static boolean isEmpty(String text) {
        return text == null || text.isEmpty();
    }

    /** The file, as JSON. */
    String text() {
        return GSON.toJson(fields);
    }

    /** Whether the worker's own configuration replaces the stored one. */
    boolean overwrites() {
        return Boolean.TRUE.equals(fields.get("overwrite"));
    }

    void note(String note) {
        notes.add(note);
    }

    /** Settings of the program that have no effect, each as half a sentence. */
    List<String> notes() {
        return List.copyOf(notes);
    }
}
