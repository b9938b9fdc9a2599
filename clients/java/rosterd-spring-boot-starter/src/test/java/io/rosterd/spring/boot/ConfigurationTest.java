package io.rosterd.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;

import io.rosterd.elasticjob.RosterdConfiguration;
import io.rosterd.elasticjob.RosterdRegistryCenter;
import io.rosterd.spring.boot.app.GreetingJob;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.shardingsphere.elasticjob.api.JobConfiguration;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.mock.env.MockEnvironment;

/** Without a coordinator: nothing connects before a job is registered. */
class ConfigurationTest {
    private final ApplicationContextRunner application =
            new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(RosterdAutoConfiguration.class));

    @Test
    void whatIsSetReachesTheClient() {
        application
                .withPropertyValues(
                        "rosterd.server=https://a:7700,https://b:7700",
                        "rosterd.namespace=payments",
                        "rosterd.credential=secret",
                        "rosterd.operator-credential=boss",
                        "rosterd.ca=/etc/ca.pem",
                        "rosterd.cert=/etc/own.pem",
                        "rosterd.key=/etc/own.key",
                        "rosterd.address=host-7",
                        "rosterd.labels.zone=eu",
                        "rosterd.slots=16",
                        "rosterd.drain-timeout=10s",
                        "rosterd.leave-timeout=2s",
                        "rosterd.gather=100ms")
                .run(context -> {
                    RosterdConfiguration says =
                            context.getBean(RosterdProperties.class).toConfiguration();
                    assertThat(says.getServerLists()).isEqualTo("https://a:7700,https://b:7700");
                    assertThat(says.getNamespace()).isEqualTo("payments");
                    assertThat(says.getCredential()).isEqualTo("secret");
                    assertThat(says.getOperatorCredential()).isEqualTo("boss");
                    assertThat(says.getRootCertificates()).hasToString("/etc/ca.pem");
                    assertThat(says.getClientCertificate()).hasToString("/etc/own.pem");
                    assertThat(says.getClientKey()).hasToString("/etc/own.key");
                    assertThat(says.getAddress()).isEqualTo("host-7");
                    assertThat(says.getLabels()).containsEntry("zone", "eu");
                    assertThat(says.getSlots()).isEqualTo(16);
                    assertThat(says.getDrainTimeoutMilliseconds()).isEqualTo(10_000);
                    assertThat(says.getLeaveTimeoutMilliseconds()).isEqualTo(2_000);
                    assertThat(says.getGatherMilliseconds()).isEqualTo(100);
                    assertThat(says.isHandlesSignals()).isFalse();
                });
    }

    @Test
    void aJobIsReadWithElasticJobsNamesAndDefaults() {
        application
                .withPropertyValues(
                        "elasticjob.jobs.report.elasticJobClass=" + GreetingJob.class.getName(),
                        "elasticjob.jobs.report.shardingTotalCount=3",
                        "elasticjob.jobs.report.sharding-item-parameters=0=a",
                        "elasticjob.jobs.report.jobErrorHandlerType=IGNORE",
                        "elasticjob.jobs.report.props.mail.to=ann")
                // The bean of the job is missing, so nothing is registered.
                .run(context -> assertThat(context).getFailure().hasMessageContaining("jobBootstrapBeanName"));
        ElasticJobConfigurationProperties job = new ElasticJobConfigurationProperties();
        job.setShardingTotalCount(3);
        JobConfiguration config = job.toJobConfiguration("report");
        assertThat(config.isMonitorExecution()).isFalse();
        assertThat(config.isMisfire()).isFalse();
        assertThat(config.getMaxTimeDiffSeconds()).isEqualTo(-1);
        assertThat(config.getReconcileIntervalMinutes()).isZero();
    }

    @Test
    void aJobNeedsAClassOrAType() {
        application
                .withPropertyValues("elasticjob.jobs.report.shardingTotalCount=1")
                .run(context -> assertThat(context)
                        .getFailure()
                        .hasMessageContaining("elasticjob.jobs.report: set either elasticJobClass or elasticJobType"));
    }

    @Test
    void itIsNotThereWhereItIsNotWanted() {
        for (String off : List.of("elasticjob.enabled=false", "rosterd.enabled=false")) {
            application
                    .withPropertyValues(off)
                    .run(context -> assertThat(context)
                            .doesNotHaveBean(RosterdRegistryCenter.class)
                            .doesNotHaveBean(RosterdLifecycle.class));
        }
    }

    @Test
    void healthNeedsAnActuator() {
        application.run(context -> assertThat(context).hasBean("rosterdHealthIndicator"));
        application
                .withPropertyValues("management.health.rosterd.enabled=false")
                .run(context -> assertThat(context).doesNotHaveBean("rosterdHealthIndicator"));
        application
                .withClassLoader(new FilteredClassLoader("org.springframework.boot.actuate"))
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean("rosterdHealthIndicator"));
    }

    @Test
    void whatHasNoEffectIsHintedAt() {
        MockEnvironment environment = new MockEnvironment()
                .withProperty("elasticjob.reg-center.server-lists", "zk:2181")
                .withProperty("elasticjob.dump.port", "9888");
        List<String> hints = Ignored.hints(environment);
        assertThat(hints).hasSize(2);
        assertThat(hints.get(0))
                .startsWith("elasticjob.reg-center.* has no effect: coordinators are named by rosterd.server");
        assertThat(Ignored.hints(new MockEnvironment())).isEmpty();
    }

    @Test
    void editorsKnowTheProperties() throws IOException {
        try (InputStream metadata =
                getClass().getClassLoader().getResourceAsStream("META-INF/spring-configuration-metadata.json")) {
            String text = new String(metadata.readAllBytes(), StandardCharsets.UTF_8);
            assertThat(text).contains("\"rosterd.server\"", "\"rosterd.drain-timeout\"", "\"elasticjob.jobs\"");
        }
    }
}
