package io.rosterd.spring.boot;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Properties;
import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;

/** One job below {@code elasticjob.jobs}, with the names and the defaults of Elastic-Job's starter. */
public class ElasticJobConfigurationProperties {
    /** The class of the job's bean; it excludes elasticJobType. */
    private Class<? extends ElasticJob> elasticJobClass;

    /** The type of a job without a class, for example SCRIPT; it excludes elasticJobClass. */
    private String elasticJobType;

    /** The schedule; a job without one runs when its OneOffJobBootstrap is executed. */
    private String cron;

    /** The time zone of the schedule; this JVM's if not set. */
    private String timeZone;

    /** The bean name of the bootstrap; needed for a job without cron. */
    private String jobBootstrapBeanName;

    /** How many items the job has. */
    private int shardingTotalCount;

    /** A parameter for each item: 0=Beijing,1=Shanghai. */
    private String shardingItemParameters;

    /** One parameter for all items. */
    private String jobParameter;

    /** Whether running items are recorded; without it there is no failover and no misfire. */
    private boolean monitorExecution;

    /** Whether an item whose process has died runs elsewhere. */
    private boolean failover;

    /** Whether an item that was busy at a scheduled time runs once more after that. */
    private boolean misfire;

    /** How far the clock of a coordinator may be off; -1: the coordinator's own limit. */
    private int maxTimeDiffSeconds = -1;

    /** How often the assignment is checked without a cause; below 1: never. */
    private int reconcileIntervalMinutes;

    /** How items are spread: AVG_ALLOCATION, ODEVITY, ROUND_ROBIN. */
    private String jobShardingStrategyType;

    /** The thread pool of the job: CPU, SINGLE_THREAD, or one of your own. */
    private String jobExecutorServiceHandlerType;

    /** How errors are handled: LOG, THROW, IGNORE, or one of your own. */
    private String jobErrorHandlerType;

    /** Listeners by their types. */
    private Collection<String> jobListenerTypes = new ArrayList<>();

    /** Free text for people. */
    private String description;

    /** Properties of the job; those with the prefix rosterd. are policies of rosterd. */
    private Properties props = new Properties();

    /** Whether the job starts disabled. */
    private boolean disabled;

    /** Whether this configuration replaces the one that is stored. */
    private boolean overwrite;

    public Class<? extends ElasticJob> getElasticJobClass() {
        return elasticJobClass;
    }

    public void setElasticJobClass(Class<? extends ElasticJob> elasticJobClass) {
        this.elasticJobClass = elasticJobClass;
    }

    public String getElasticJobType() {
        return elasticJobType;
    }

    public void setElasticJobType(String elasticJobType) {
        this.elasticJobType = elasticJobType;
    }

    public String getCron() {
        return cron;
    }

    public void setCron(String cron) {
        this.cron = cron;
    }

    public String getTimeZone() {
        return timeZone;
    }

    public void setTimeZone(String timeZone) {
        this.timeZone = timeZone;
    }

    public String getJobBootstrapBeanName() {
        return jobBootstrapBeanName;
    }

    public void setJobBootstrapBeanName(String jobBootstrapBeanName) {
        this.jobBootstrapBeanName = jobBootstrapBeanName;
    }

    public int getShardingTotalCount() {
        return shardingTotalCount;
    }

    public void setShardingTotalCount(int shardingTotalCount) {
        this.shardingTotalCount = shardingTotalCount;
    }

    public String getShardingItemParameters() {
        return shardingItemParameters;
    }

    public void setShardingItemParameters(String shardingItemParameters) {
        this.shardingItemParameters = shardingItemParameters;
    }

    public String getJobParameter() {
        return jobParameter;
    }

    public void setJobParameter(String jobParameter) {
        this.jobParameter = jobParameter;
    }

    public boolean isMonitorExecution() {
        return monitorExecution;
    }

    public void setMonitorExecution(boolean monitorExecution) {
        this.monitorExecution = monitorExecution;
    }

    public boolean isFailover() {
        return failover;
    }

    public void setFailover(boolean failover) {
        this.failover = failover;
    }

    public boolean isMisfire() {
        return misfire;
    }

    public void setMisfire(boolean misfire) {
        this.misfire = misfire;
    }

    public int getMaxTimeDiffSeconds() {
        return maxTimeDiffSeconds;
    }

    public void setMaxTimeDiffSeconds(int maxTimeDiffSeconds) {
        this.maxTimeDiffSeconds = maxTimeDiffSeconds;
    }

    public int getReconcileIntervalMinutes() {
        return reconcileIntervalMinutes;
    }

    public void setReconcileIntervalMinutes(int reconcileIntervalMinutes) {
        this.reconcileIntervalMinutes = reconcileIntervalMinutes;
    }

    public String getJobShardingStrategyType() {
        return jobShardingStrategyType;
    }

    public void setJobShardingStrategyType(String jobShardingStrategyType) {
        this.jobShardingStrategyType = jobShardingStrategyType;
    }

    public String getJobExecutorServiceHandlerType() {
        return jobExecutorServiceHandlerType;
    }

    public void setJobExecutorServiceHandlerType(String jobExecutorServiceHandlerType) {
        this.jobExecutorServiceHandlerType = jobExecutorServiceHandlerType;
    }

    public String getJobErrorHandlerType() {
        return jobErrorHandlerType;
    }

    public void setJobErrorHandlerType(String jobErrorHandlerType) {
        this.jobErrorHandlerType = jobErrorHandlerType;
    }

    public Collection<String> getJobListenerTypes() {
        return jobListenerTypes;
    }

    public void setJobListenerTypes(Collection<String> jobListenerTypes) {
        this.jobListenerTypes = jobListenerTypes;
    }

    public String getDescription() {
        return description;
    }

    public void setDescription(String description) {
        this.description = description;
    }

    public Properties getProps() {
        return props;
    }

    public void setProps(Properties props) {
        this.props = props;
    }

    public boolean isDisabled() {
        return disabled;
    }

    public void setDisabled(boolean disabled) {
        this.disabled = disabled;
    }

    public boolean isOverwrite() {
        return overwrite;
    }

    public void setOverwrite(boolean overwrite) {
        this.overwrite = overwrite;
    }

    /** The configuration from these properties. */
    JobConfiguration toJobConfiguration(String jobName) {
        JobConfiguration.Builder builder = JobConfiguration.newBuilder(jobName, shardingTotalCount)
                .cron(cron)
                .timeZone(timeZone)
                .shardingItemParameters(shardingItemParameters)
                .jobParameter(jobParameter)
                .monitorExecution(monitorExecution)
                .failover(failover)
                .misfire(misfire)
                .maxTimeDiffSeconds(maxTimeDiffSeconds)
                .reconcileIntervalMinutes(reconcileIntervalMinutes)
                .jobShardingStrategyType(jobShardingStrategyType)
                .jobExecutorServiceHandlerType(jobExecutorServiceHandlerType)
                .jobErrorHandlerType(jobErrorHandlerType)
                .jobListenerTypes(jobListenerTypes.toArray(String[]::new))
                .description(description)
                .disabled(disabled)
                .overwrite(overwrite);
        props.stringPropertyNames().forEach(name -> builder.setProperty(name, props.getProperty(name)));
        return builder.build();
    }
}
