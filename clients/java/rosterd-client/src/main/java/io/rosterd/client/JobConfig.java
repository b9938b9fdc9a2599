package io.rosterd.client;

import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * How a job is scheduled and run. A value that is not set has the default of the guide's page on job fields; the
 * coordinator validates all of them when the job is registered.
 */
public final class JobConfig {
    private final Map<String, Object> fields;
    private final Map<String, Object> extensions;
    private final int items;
    private final SortedMap<Integer, String> itemParameters;

    private JobConfig(Builder builder) {
        fields = new LinkedHashMap<>(builder.fields);
        extensions = new LinkedHashMap<>(builder.extensions);
        items = builder.items;
        itemParameters = new TreeMap<>(builder.itemParameters);
    }

    /** {@return a builder} */
    public static Builder builder() {
        return new Builder();
    }

    /** The job file, as JSON. */
    String text(String job, boolean overwrite) {
        Map<String, Object> file = new LinkedHashMap<>();
        file.put("jobName", job);
        file.put("shardingTotalCount", items);
        if (!itemParameters.isEmpty()) file.put("shardingItemParameters", parametersText(job));
        file.putAll(fields);
        if (overwrite) file.put("overwrite", true);
        if (!extensions.isEmpty()) file.put("rosterd", extensions);
        return Json.write(file);
    }

    private String parametersText(String job) {
        StringBuilder text = new StringBuilder();
        itemParameters.forEach((item, parameter) -> {
            String field = "job '" + job + "': itemParameters[" + item + "]";
            if (item < 0 || item >= items) {
                throw new InvalidOptionException(
                        field + ": there is no such item of " + items + ": give 0 to " + (items - 1));
            }
            if (parameter.contains(",")) {
                throw new InvalidOptionException(
                        field + " is '" + parameter + "': a job file separates parameters by commas: use another sign");
            }
            text.append(text.length() == 0 ? "" : ",").append(item).append('=').append(parameter);
        });
        return text.toString();
    }

    /** How fires that are found too late are handled. */
    public enum TooLate {
        /** One run for all of them. */
        RUN_ONCE,
        /** A record of each gap. */
        MISSED
    }

    /** How a scheduled time that daylight saving skips is handled. */
    public enum Gap {
        /** It fires when the gap ends. */
        FIRE_AT_END,
        /** It does not fire. */
        SKIP
    }

    /** The kind of a job's handler. */
    public enum Kind {
        /** One call per run. */
        SIMPLE,
        /** Fetch and process, see {@link Dataflow}. */
        DATAFLOW
    }

    /** How a fire whose callback was not answered in time is handled. */
    public enum OnTimeout {
        /** It runs. */
        RUN,
        /** It is skipped. */
        SKIP
    }

    /**
     * Attempts of one run.
     *
     * @param maxAttempts 1 to 100, the first included
     * @param backoff the pause before the second attempt; null: 1 s
     * @param backoffMultiplier each further pause is this many times as long as the one before; 0: the default, 2
     * @param backoffMax no pause is longer; null: 60 s
     */
    public record Retries(int maxAttempts, Duration backoff, int backoffMultiplier, Duration backoffMax) {
        /**
         * Retries with the default pauses.
         *
         * @param maxAttempts 1 to 100, the first included
         */
        public Retries(int maxAttempts) {
            this(maxAttempts, null, 0, null);
        }
    }

    /**
     * Callbacks before the first and after the last item of a fire.
     *
     * @param started hold each fire until one worker has answered its callback
     * @param completed call back one worker when all items of a fire have ended
     * @param timeout how long to wait for all items to start, and then for the answer; null: 60 s
     * @param onTimeout how a held fire without an answer is handled; null: it runs
     */
    public record Guarantee(boolean started, boolean completed, Duration timeout, OnTimeout onTimeout) {
        /**
         * A guarantee with the default timeout.
         *
         * @param started hold each fire until one worker has answered its callback
         * @param completed call back one worker when all items of a fire have ended
         */
        public Guarantee(boolean started, boolean completed) {
            this(started, completed, null, null);
        }
    }

    /** Makes {@link JobConfig}s. */
    public static final class Builder {
        private static final java.util.Set<String> ELASTIC_STRATEGIES =
                java.util.Set.of("AVG_ALLOCATION", "ODEVITY", "ROUND_ROBIN");

        private final Map<String, Object> fields = new LinkedHashMap<>();
        private final Map<String, Object> extensions = new LinkedHashMap<>();
        private final SortedMap<Integer, String> itemParameters = new TreeMap<>();
        private int items;

        private Builder() {}

        /**
         * Sets the number of items.
         *
         * @param items 1 to 100000
         * @return this
         */
        public Builder items(int items) {
            this.items = items;
            return this;
        }

        /**
         * Sets one parameter per item, in the order of the items.
         *
         * @param parameters without commas
         * @return this
         */
        public Builder itemParameters(String... parameters) {
            itemParameters.clear();
            for (String parameter : Arrays.asList(parameters)) itemParameters.put(itemParameters.size(), parameter);
            return this;
        }

        /**
         * Sets the parameters of some items.
         *
         * @param parameters by item, without commas
         * @return this
         */
        public Builder itemParameters(Map<Integer, String> parameters) {
            itemParameters.clear();
            itemParameters.putAll(parameters);
            return this;
        }

        /**
         * Sets properties that the worker gets.
         *
         * @param props by name, at most 64 KiB
         * @return this
         */
        public Builder props(Map<String, String> props) {
            fields.put("props", new TreeMap<>(props));
            return this;
        }

        /**
         * Sets how items are spread over instances: {@code AVG_ALLOCATION} (the default), {@code ODEVITY},
         * {@code ROUND_ROBIN}, {@code STICKY}, or another one that the coordinator knows.
         *
         * @param strategy its name
         * @return this
         */
        public Builder strategy(String strategy) {
            fields.remove("jobShardingStrategyType");
            extensions.remove("strategy");
            if (ELASTIC_STRATEGIES.contains(strategy)) fields.put("jobShardingStrategyType", strategy);
            else extensions.put("strategy", strategy);
            return this;
        }

        /**
         * Sets how a run goes. Default: simple.
         *
         * @param kind simple or dataflow
         * @return this
         */
        public Builder kind(Kind kind) {
            extensions.put("kind", lowerCase(kind));
            return this;
        }

        /**
         * Sets how fires older than {@link #catchUpWindow} are handled.
         *
         * @param tooLate one run for all of them, or a record of each gap
         * @return this
         */
        public Builder tooLate(TooLate tooLate) {
            extensions.put("too_late", lowerCase(tooLate));
            return this;
        }

        /**
         * Sets how a scheduled time that daylight saving skips is handled. Default: it fires when the gap ends.
         *
         * @param gap fire at its end, or skip
         * @return this
         */
        public Builder gap(Gap gap) {
            extensions.put("gap", lowerCase(gap));
            return this;
        }

        /**
         * Sets the attempts of one run. Default: one.
         *
         * @param retries how many, and the pauses between them
         * @return this
         */
        public Builder retries(Retries retries) {
            Map<String, Object> given = new LinkedHashMap<>();
            given.put("max_attempts", retries.maxAttempts());
            if (retries.backoff() != null)
                given.put("backoff_ms", retries.backoff().toMillis());
            if (retries.backoffMultiplier() > 0) given.put("backoff_multiplier", retries.backoffMultiplier());
            if (retries.backoffMax() != null)
                given.put("backoff_max_ms", retries.backoffMax().toMillis());
            extensions.put("retries", given);
            return this;
        }

        /**
         * Sets the callbacks of a fire.
         *
         * @param guarantee which, and how long to wait for them
         * @return this
         */
        public Builder guarantee(Guarantee guarantee) {
            Map<String, Object> given = new LinkedHashMap<>();
            given.put("started", guarantee.started());
            given.put("completed", guarantee.completed());
            if (guarantee.timeout() != null)
                given.put("timeout_ms", guarantee.timeout().toMillis());
            if (guarantee.onTimeout() != null) given.put("on_timeout", lowerCase(guarantee.onTimeout()));
            extensions.put("guarantee", given);
            return this;
        }

        /**
         * Sets {@code cron}.
         *
         * @param cron Quartz notation, {@code 0/30 * * * * ?}; without one the job runs only when it is triggered
         * @return this
         */
        public Builder cron(String cron) {
            fields.put("cron", cron);
            return this;
        }

        /**
         * Sets {@code timeZone}.
         *
         * @param timeZone zone of the schedule, an IANA name; default: UTC
         * @return this
         */
        public Builder timeZone(String timeZone) {
            fields.put("timeZone", timeZone);
            return this;
        }

        /**
         * Sets {@code jobParameter}.
         *
         * @param jobParameter one parameter for all items
         * @return this
         */
        public Builder jobParameter(String jobParameter) {
            fields.put("jobParameter", jobParameter);
            return this;
        }

        /**
         * Sets {@code description}.
         *
         * @param description free text, at most 4 KiB
         * @return this
         */
        public Builder description(String description) {
            fields.put("description", description);
            return this;
        }

        /**
         * Sets {@code label}.
         *
         * @param label a label of the job, for people
         * @return this
         */
        public Builder label(String label) {
            fields.put("label", label);
            return this;
        }

        /**
         * Sets {@code disabled}.
         *
         * @param disabled whether the job starts disabled
         * @return this
         */
        public Builder disabled(boolean disabled) {
            fields.put("disabled", disabled);
            return this;
        }

        /**
         * Sets {@code monitorExecution}.
         *
         * @param monitorExecution whether running items are recorded; without it no failover, no misfire and no offsets. Default: true
         * @return this
         */
        public Builder monitorExecution(boolean monitorExecution) {
            fields.put("monitorExecution", monitorExecution);
            return this;
        }

        /**
         * Sets {@code failover}.
         *
         * @param failover whether an item runs elsewhere when its worker has died. Default: false
         * @return this
         */
        public Builder failover(boolean failover) {
            fields.put("failover", failover);
            return this;
        }

        /**
         * Sets {@code misfire}.
         *
         * @param misfire whether a fire that came while the item was busy is run afterwards. Default: true
         * @return this
         */
        public Builder misfire(boolean misfire) {
            fields.put("misfire", misfire);
            return this;
        }

        /**
         * Sets {@code reconcileIntervalMinutes}.
         *
         * @param reconcileIntervalMinutes how often the assignment is checked without a cause, in minutes; below 1: never. Default: 10
         * @return this
         */
        public Builder reconcileIntervalMinutes(int reconcileIntervalMinutes) {
            fields.put("reconcileIntervalMinutes", reconcileIntervalMinutes);
            return this;
        }

        /**
         * Sets {@code streaming}.
         *
         * @param streaming for a dataflow: fetch again until there is nothing. Default: false
         * @return this
         */
        public Builder streaming(boolean streaming) {
            extensions.put("streaming", streaming);
            return this;
        }

        /**
         * Sets {@code run_timeout_ms}.
         *
         * @param timeout a run that takes longer is told to stop, and has timed out; default: none
         * @return this
         */
        public Builder timeout(Duration timeout) {
            extensions.put("run_timeout_ms", timeout.toMillis());
            return this;
        }

        /**
         * Sets {@code max_failovers}.
         *
         * @param maxFailovers how many times a run is failed over after its worker died. Default: 3
         * @return this
         */
        public Builder maxFailovers(int maxFailovers) {
            extensions.put("max_failovers", maxFailovers);
            return this;
        }

        /**
         * Sets {@code catch_up_window_ms}.
         *
         * @param catchUpWindow the age up to which a late fire runs as if on time. Default: 10 s
         * @return this
         */
        public Builder catchUpWindow(Duration catchUpWindow) {
            extensions.put("catch_up_window_ms", catchUpWindow.toMillis());
            return this;
        }

        /**
         * Sets {@code disconnect_grace_ms}.
         *
         * @param disconnectGrace how long without a heartbeat until a worker is marked dead, 100 ms to 10 min; default: the lease
         * @return this
         */
        public Builder disconnectGrace(Duration disconnectGrace) {
            extensions.put("disconnect_grace_ms", disconnectGrace.toMillis());
            return this;
        }

        /**
         * Sets {@code max_clock_diff_ms}.
         *
         * @param maxClockDifference a coordinator whose clock is off by more does not fire this job
         * @return this
         */
        public Builder maxClockDifference(Duration maxClockDifference) {
            extensions.put("max_clock_diff_ms", maxClockDifference.toMillis());
            return this;
        }

        /** {@return the config} */
        public JobConfig build() {
            return new JobConfig(this);
        }

        private static String lowerCase(Enum<?> value) {
            return value.name().toLowerCase(java.util.Locale.ROOT);
        }
    }
}
