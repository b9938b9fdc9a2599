package io.rosterd.spring.boot;

import io.rosterd.elasticjob.OneOffJobBootstrap;
import io.rosterd.elasticjob.RosterdRegistryCenter;
import io.rosterd.elasticjob.ScheduleJobBootstrap;
import java.util.Map;
import java.util.Set;
import org.apache.shardingsphere.elasticjob.annotation.ElasticJobConfiguration;
import org.springframework.beans.factory.config.BeanDefinitionHolder;
import org.springframework.beans.factory.config.RuntimeBeanReference;
import org.springframework.beans.factory.support.BeanDefinitionBuilder;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.context.annotation.ClassPathBeanDefinitionScanner;
import org.springframework.context.annotation.ImportBeanDefinitionRegistrar;
import org.springframework.core.annotation.AnnotationAttributes;
import org.springframework.core.type.AnnotationMetadata;
import org.springframework.core.type.filter.AnnotationTypeFilter;
import org.springframework.util.ClassUtils;
import org.springframework.util.StringUtils;

/** Finds annotated jobs, and makes beans of them and of their bootstraps, which have the jobs' names. */
final class ElasticJobScanRegistrar implements ImportBeanDefinitionRegistrar {
    @Override
    public void registerBeanDefinitions(AnnotationMetadata annotated, BeanDefinitionRegistry registry) {
        AnnotationAttributes scan =
                AnnotationAttributes.fromMap(annotated.getAnnotationAttributes(ElasticJobScan.class.getName()));
        String[] packages = scan == null ? new String[0] : scan.getStringArray("basePackages");
        if (packages.length == 0) packages = new String[] {ClassUtils.getPackageName(annotated.getClassName())};
        new Scanner(registry).doScan(packages);
    }

    private static final class Scanner extends ClassPathBeanDefinitionScanner {
        private final BeanDefinitionRegistry registry;

        Scanner(BeanDefinitionRegistry registry) {
            super(registry, false);
            this.registry = registry;
            addIncludeFilter(new AnnotationTypeFilter(ElasticJobConfiguration.class));
        }

        @Override
        protected Set<BeanDefinitionHolder> doScan(String... basePackages) {
            Set<BeanDefinitionHolder> jobs = super.doScan(basePackages);
            jobs.forEach(this::registerBootstrap);
            return jobs;
        }

        private void registerBootstrap(BeanDefinitionHolder job) {
            String className = job.getBeanDefinition().getBeanClassName();
            Map<String, Object> says = AnnotationMetadata.introspect(ClassUtils.resolveClassName(
                            className, getResourceLoader().getClassLoader()))
                    .getAnnotationAttributes(ElasticJobConfiguration.class.getName());
            String cron = (String) says.get("cron");
            Class<?> bootstrap = StringUtils.hasLength(cron) ? ScheduleJobBootstrap.class : OneOffJobBootstrap.class;
            registry.registerBeanDefinition(
                    (String) says.get("jobName"),
                    BeanDefinitionBuilder.genericBeanDefinition(bootstrap)
                            .addConstructorArgValue(new RuntimeBeanReference(RosterdRegistryCenter.class))
                            .addConstructorArgValue(new RuntimeBeanReference(job.getBeanName()))
                            .getBeanDefinition());
        }
    }
}
