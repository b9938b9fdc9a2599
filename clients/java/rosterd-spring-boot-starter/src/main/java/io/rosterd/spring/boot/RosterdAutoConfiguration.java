package io.rosterd.spring.boot;

import io.rosterd.elasticjob.RosterdRegistryCenter;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;

/** Runs the jobs below {@code elasticjob.jobs} on the coordinators at {@code rosterd.server}. */
@AutoConfiguration
@ConditionalOnProperty(name = "elasticjob.enabled", havingValue = "true", matchIfMissing = true)
@ConditionalOnProperty(name = "rosterd.enabled", havingValue = "true", matchIfMissing = true)
@EnableConfigurationProperties({RosterdProperties.class, ElasticJobProperties.class})
public class RosterdAutoConfiguration {
    /**
     * Where the coordinators are.
     *
     * @param properties what is set below {@code rosterd}
     * @return the registry center; the context's end closes it
     */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    public RosterdRegistryCenter rosterdRegistryCenter(RosterdProperties properties) {
        return new RosterdRegistryCenter(properties.toConfiguration());
    }

    @Bean
    ElasticJobBootstraps elasticJobBootstraps(
            ElasticJobProperties properties,
            RosterdRegistryCenter center,
            ConfigurableListableBeanFactory beans,
            Environment environment) {
        return new ElasticJobBootstraps(properties, center, beans, environment);
    }

    @Bean
    RosterdLifecycle rosterdLifecycle(RosterdRegistryCenter center, ConfigurableListableBeanFactory beans) {
        return new RosterdLifecycle(center, beans);
    }

    /** For applications with an actuator. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(HealthIndicator.class)
    static class HealthConfiguration {
        @Bean
        @ConditionalOnEnabledHealthIndicator("rosterd")
        @ConditionalOnMissingBean(name = "rosterdHealthIndicator")
        HealthIndicator rosterdHealthIndicator(RosterdRegistryCenter center) {
            return new RosterdHealthIndicator(center);
        }
    }
}
