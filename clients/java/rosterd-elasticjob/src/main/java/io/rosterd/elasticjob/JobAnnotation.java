package io.rosterd.elasticjob;

import java.lang.reflect.InvocationTargetException;
import org.apache.shardingsphere.elasticjob.annotation.ElasticJobConfiguration;
import org.apache.shardingsphere.elasticjob.annotation.ElasticJobProp;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.apache.shardingsphere.elasticjob.api.JobExtraConfigurationFactory;
import org.apache.shardingsphere.elasticjob.infra.exception.JobConfigurationException;

/** Reads {@link ElasticJobConfiguration} of a job's class. */
final class JobAnnotation {

    private JobAnnotation() {}

    /** The configuration from the annotation; an empty attribute counts as not set. */
    static JobConfiguration read(Class<?> jobClass) {
        ElasticJobConfiguration annotation = find(jobClass);
        if (annotation == null) {
            throw new JobConfigurationException(
                    "%s has no @ElasticJobConfiguration: annotate it, or give a JobConfiguration", jobClass.getName());
        }
        JobConfiguration.Builder builder = JobConfiguration.newBuilder(
                        annotation.jobName(), annotation.shardingTotalCount())
                .cron(set(annotation.cron()))
                .timeZone(set(annotation.timeZone()))
                .shardingItemParameters(annotation.shardingItemParameters())
                .jobParameter(annotation.jobParameter())
                .monitorExecution(annotation.monitorExecution())
                .failover(annotation.failover())
                .misfire(annotation.misfire())
                .maxTimeDiffSeconds(annotation.maxTimeDiffSeconds())
                .reconcileIntervalMinutes(annotation.reconcileIntervalMinutes())
                .jobShardingStrategyType(set(annotation.jobShardingStrategyType()))
                .jobExecutorServiceHandlerType(set(annotation.jobExecutorServiceHandlerType()))
                .jobErrorHandlerType(set(annotation.jobErrorHandlerType()))
                .jobListenerTypes(annotation.jobListenerTypes())
                .description(annotation.description())
                .disabled(annotation.disabled())
                .overwrite(annotation.overwrite());
        for (Class<? extends JobExtraConfigurationFactory> each : annotation.extraConfigurations()) {
            extra(each).getJobExtraConfiguration().ifPresent(builder::addExtraConfigurations);
        }
        for (ElasticJobProp each : annotation.props()) {
            builder.setProperty(each.key(), each.value());
        }
        return builder.build();
    }

    /** Also through classes that were generated for the annotated one, which extend it. */
    private static ElasticJobConfiguration find(Class<?> jobClass) {
        for (Class<?> each = jobClass; each != null; each = each.getSuperclass()) {
            ElasticJobConfiguration found = each.getAnnotation(ElasticJobConfiguration.class);
            if (found != null) return found;
        }
        return null;
    }

    private static JobExtraConfigurationFactory extra(Class<? extends JobExtraConfigurationFactory> factory) {
        try {
            return factory.getDeclaredConstructor().newInstance();
        } catch (InvocationTargetException failed) {
            throw refused(factory, failed.getCause());
        } catch (ReflectiveOperationException failed) {
            throw refused(factory, failed);
        }
    }

    private static RuntimeException refused(Class<?> factory, Throwable cause) {
        RuntimeException refused = new JobConfigurationException(
                "%s cannot be made: give it a public constructor without arguments", factory.getName());
        refused.initCause(cause);
        return refused;
    }

    private static String set(String text) {
        return text.isEmpty() ? null : text;
    }
}
