package io.rosterd.elasticjob;

import java.util.Map;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;

/** Copies of a {@link JobConfiguration}, which is immutable. */
final class Configurations {

    private Configurations() {}

    /** A copy with the coordinator's current values. */
    static JobConfiguration with(JobConfiguration config, int total, String jobParameter, Map<String, String> props) {
        JobConfiguration.Builder builder = JobConfiguration.newBuilder(config.getJobName(), total)
                .cron(config.getCron())
                .timeZone(config.getTimeZone())
                .shardingItemParameters(config.getShardingItemParameters())
                .jobParameter(jobParameter)
                .monitorExecution(config.isMonitorExecution())
                .failover(config.isFailover())
                .misfire(config.isMisfire())
                .maxTimeDiffSeconds(config.getMaxTimeDiffSeconds())
                .reconcileIntervalMinutes(config.getReconcileIntervalMinutes())
                .jobShardingStrategyType(config.getJobShardingStrategyType())
                .jobExecutorServiceHandlerType(config.getJobExecutorServiceHandlerType())
                .jobErrorHandlerType(config.getJobErrorHandlerType())
                .jobListenerTypes(config.getJobListenerTypes().toArray(String[]::new))
                .description(config.getDescription())
                .disabled(config.isDisabled())
                .overwrite(config.isOverwrite())
                .label(config.getLabel())
                .staticSharding(config.isStaticSharding());
        config.getExtraConfigurations().forEach(builder::addExtraConfigurations);
        props.forEach(builder::setProperty);
        return builder.build();
    }
}
