package io.rosterd.spring.boot;

import io.rosterd.elasticjob.JobBootstrap;
import io.rosterd.elasticjob.OneOffJobBootstrap;
import io.rosterd.elasticjob.RosterdRegistryCenter;
import io.rosterd.elasticjob.ScheduleJobBootstrap;
import org.apache.shardingsphere.elasticjob.api.ElasticJob;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.env.Environment;
import org.springframework.util.StringUtils;

/** Makes a bean of a bootstrap for each job below {@code elasticjob.jobs}, with the names of Elastic-Job's starter. */
final class ElasticJobBootstraps implements SmartInitializingSingleton {
    private static final Logger LOG = LoggerFactory.getLogger(ElasticJobBootstraps.class);

    private final ElasticJobProperties properties;
    private final RosterdRegistryCenter center;
    private final ConfigurableListableBeanFactory beans;
    private final Environment environment;

    ElasticJobBootstraps(
            ElasticJobProperties properties,
            RosterdRegistryCenter center,
            ConfigurableListableBeanFactory beans,
            Environment environment) {
        this.properties = properties;
        this.center = center;
        this.beans = beans;
        this.environment = environment;
    }

    @Override
    public void afterSingletonsInstantiated() {
        Ignored.hints(environment).forEach(LOG::info);
        properties.getJobs().forEach(this::register);
    }

    private void register(String name, ElasticJobConfigurationProperties job) {
        boolean typed = StringUtils.hasLength(job.getElasticJobType());
        if (typed == (job.getElasticJobClass() != null)) {
            throw new IllegalArgumentException(
                    "elasticjob.jobs." + name + ": set either elasticJobClass or elasticJobType");
        }
        boolean scheduled = StringUtils.hasLength(job.getCron());
        String bean = job.getJobBootstrapBeanName();
        if (!StringUtils.hasLength(bean)) {
            if (!scheduled) {
                throw new IllegalArgumentException(
                        "elasticjob.jobs." + name + ": without cron it runs when its bootstrap is"
                                + " executed: name that bean with jobBootstrapBeanName, or set cron");
            }
            bean = name + "ScheduleJobBootstrap";
        }
        JobConfiguration config = job.toJobConfiguration(name);
        beans.registerSingleton(bean, typed ? typed(job, config, scheduled) : classed(job, config, scheduled));
    }

    private JobBootstrap typed(ElasticJobConfigurationProperties job, JobConfiguration config, boolean scheduled) {
        String type = job.getElasticJobType();
        return scheduled
                ? new ScheduleJobBootstrap(center, type, config)
                : new OneOffJobBootstrap(center, type, config);
    }

    private JobBootstrap classed(ElasticJobConfigurationProperties job, JobConfiguration config, boolean scheduled) {
        ElasticJob elasticJob = beans.getBean(job.getElasticJobClass());
        // The class behind any proxy: it is the name that Elastic-Job stores.
        String handlerType = AopUtils.getTargetClass(elasticJob).getName();
        return scheduled
                ? new ScheduleJobBootstrap(center, elasticJob, config, handlerType)
                : new OneOffJobBootstrap(center, elasticJob, config, handlerType);
    }
}
