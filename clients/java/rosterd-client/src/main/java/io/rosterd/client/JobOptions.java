package io.rosterd.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The options of a job besides its handler. */
public final class JobOptions {
    private static final Logger LOG = LoggerFactory.getLogger(JobOptions.class);
    private static final int MAX_CONFIG = 64 * 1024;
    private static final JobOptions NONE = builder().build();

    private final JobConfig config;
    private final String configText;
    private final Path configFile;
    private final boolean overwrite;
    private final String handlerType;
    private final RunCallback before;
    private final RunCallback after;
    private final ErrorCallback onError;
    private final FireCallback onAllStarted;
    private final FireCallback onAllCompleted;

    private JobOptions(Builder builder) {
        config = builder.config;
        configText = builder.configText;
        configFile = builder.configFile;
        overwrite = builder.overwrite;
        handlerType = builder.handlerType;
        before = builder.before;
        after = builder.after;
        onError = builder.onError;
        onAllStarted = builder.onAllStarted;
        onAllCompleted = builder.onAllCompleted;
    }

    /** {@return options with nothing set} */
    public static JobOptions none() {
        return NONE;
    }

    /** {@return a builder} */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Calls a handler once with its callbacks, as a worker does for every attempt.
     *
     * @param handler the handler
     * @param run the run
     * @return what the handler returned
     * @throws Exception what the handler, {@code before} or {@code after} threw
     */
    public Object call(Handler handler, Run run) throws Exception {
        Object output;
        try {
            if (before != null) before.accept(run);
            output = handler.run(run);
        } catch (Throwable error) {
            if (onError != null) tell(run, error);
            if (after != null) afterFailure(run, error);
            throw error;
        }
        if (after != null) after.accept(run);
        return output;
    }

    private void tell(Run run, Throwable error) {
        try {
            onError.accept(run, error);
        } catch (Exception second) {
            LOG.error("onError failed", second);
        }
    }

    private void afterFailure(Run run, Throwable error) {
        try {
            after.accept(run);
        } catch (Exception second) {
            // The first error counts.
            error.addSuppressed(second);
        }
    }

    FireCallback onAllStarted() {
        return onAllStarted;
    }

    FireCallback onAllCompleted() {
        return onAllCompleted;
    }

    boolean overwrite() {
        return overwrite;
    }

    String handlerType(String job) {
        return handlerType == null ? job : handlerType;
    }

    /** The job file to register; empty: the job must exist. */
    String configOf(String job) {
        String text = "";
        if (config != null) text = config.text(job, overwrite);
        else if (configText != null) text = configText;
        else if (configFile != null) text = read(job);
        int length = text.getBytes(StandardCharsets.UTF_8).length;
        if (length > MAX_CONFIG) {
            throw new InvalidOptionException("job '" + job + "': config has " + length + " bytes, at most " + MAX_CONFIG
                    + " are allowed: use `rosterd jobs apply` for it");
        }
        return text;
    }

    private String read(String job) {
        try {
            return Files.readString(configFile);
        } catch (IOException error) {
            throw new InvalidOptionException(
                    "job '" + job + "': config " + configFile + " cannot be read: " + error + ": name a job file");
        }
    }

    /** Makes {@link JobOptions}. The last config that is set overrides earlier ones. */
    public static final class Builder {
        private JobConfig config;
        private String configText;
        private Path configFile;
        private boolean overwrite;
        private String handlerType;
        private RunCallback before;
        private RunCallback after;
        private ErrorCallback onError;
        private FireCallback onAllStarted;
        private FireCallback onAllCompleted;

        private Builder() {}

        /**
         * Creates the job if it is absent.
         *
         * @param config how it is scheduled and run
         * @return this
         */
        public Builder config(JobConfig config) {
            return configured(config, null, null);
        }

        /**
         * Creates the job if it is absent, from the text of a job file.
         *
         * @param config YAML or JSON with Elastic-Job's field names, at most 64 KiB
         * @return this
         */
        public Builder config(String config) {
            return configured(null, config, null);
        }

        /**
         * Creates the job if it is absent, from a job file. It is read when the job is added to a worker.
         *
         * @param config YAML or JSON with Elastic-Job's field names, at most 64 KiB
         * @return this
         */
        public Builder config(Path config) {
            return configured(null, null, config);
        }

        private Builder configured(JobConfig typed, String text, Path file) {
            this.config = typed;
            this.configText = text;
            this.configFile = file;
            return this;
        }

        /**
         * Whether the config replaces that of a job that exists. Default: false.
         *
         * @param overwrite true: it does
         * @return this
         */
        public Builder overwrite(boolean overwrite) {
            this.overwrite = overwrite;
            return this;
        }

        /**
         * Names what runs the job, the same on all its workers in all languages. Default: the job's name.
         *
         * @param handlerType the name
         * @return this
         */
        public Builder handlerType(String handlerType) {
            this.handlerType = handlerType;
            return this;
        }

        /**
         * Sets what is called before every attempt; if it throws, the attempt has failed.
         *
         * @param before what is called
         * @return this
         */
        public Builder before(RunCallback before) {
            this.before = before;
            return this;
        }

        /**
         * Sets what is called after every attempt, however it ended; if it throws, the attempt has failed.
         *
         * @param after what is called
         * @return this
         */
        public Builder after(RunCallback after) {
            this.after = after;
            return this;
        }

        /**
         * Sets what is called after an attempt that threw.
         *
         * @param onError what is called
         * @return this
         */
        public Builder onError(ErrorCallback onError) {
            this.onError = onError;
            return this;
        }

        /**
         * Sets what is called before any item of a fire runs, on one worker, if the job's guarantee asks for it.
         *
         * @param onAllStarted what is called
         * @return this
         */
        public Builder onAllStarted(FireCallback onAllStarted) {
            this.onAllStarted = onAllStarted;
            return this;
        }

        /**
         * Sets what is called after the last item of a fire has ended, on one worker, if the job's guarantee asks for it.
         *
         * @param onAllCompleted what is called
         * @return this
         */
        public Builder onAllCompleted(FireCallback onAllCompleted) {
            this.onAllCompleted = onAllCompleted;
            return this;
        }

        /** {@return the options} */
        public JobOptions build() {
            return new JobOptions(this);
        }
    }
}
