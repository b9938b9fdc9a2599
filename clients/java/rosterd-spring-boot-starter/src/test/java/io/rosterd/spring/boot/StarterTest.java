package io.rosterd.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;

import io.rosterd.elasticjob.OneOffJobBootstrap;
import io.rosterd.elasticjob.RosterdRegistryCenter;
import io.rosterd.elasticjob.ScheduleJobBootstrap;
import io.rosterd.harness.Coordinator;
import io.rosterd.harness.Wait;
import io.rosterd.spring.boot.app.AppListener;
import io.rosterd.spring.boot.app.Application;
import io.rosterd.spring.boot.app.Greeter;
import io.rosterd.spring.boot.app.SlowJob;
import io.rosterd.spring.boot.app.scanned.ScannedJob;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.actuate.health.Status;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;

/** A real application on a real coordinator. */
class StarterTest {
    @TempDir
    static Path folder;

    private static Coordinator coordinator;
    private static ConfigurableApplicationContext context;

    @BeforeAll
    static void start() throws Exception {
        Path script = folder.resolve("script.sh");
        Files.writeString(script, "#!/bin/sh\necho \"$1\" > " + folder.resolve("out"));
        assertThat(script.toFile().setExecutable(true)).isTrue();
        coordinator = Coordinator.onDisk();
        context = run(coordinator);
    }

    @AfterAll
    static void stop() {
        context.close();
        coordinator.close();
    }

    private static ConfigurableApplicationContext run(Coordinator coordinator, String... arguments) {
        return new SpringApplicationBuilder(Application.class, Scanning.class)
                .properties(
                        "rosterd.server=" + coordinator.server(),
                        "script.file=" + folder.resolve("script.sh"),
                        "spring.main.banner-mode=off",
                        "spring.jmx.enabled=false",
                        "logging.level.root=warn")
                .run(arguments);
    }

    /** Finds annotated jobs. */
    @Configuration
    @ElasticJobScan("io.rosterd.spring.boot.app.scanned")
    static class Scanning {}

    @Test
    void aScheduledJobRunsAsTheBeanThatItIs() {
        Greeter greeter = context.getBean(Greeter.class);
        Wait.until(
                "both items have run, and the aspect around them",
                () -> greeter.greeted().contains("greeting Beijing")
                        && greeter.greeted().contains("greeting Shanghai")
                        && greeter.greeted().contains("traced"));
        assertThat(context.getBean("greetingScheduleJobBootstrap")).isInstanceOf(ScheduleJobBootstrap.class);
        // The class behind the proxy: its name in Elastic-Job.
        assertThat(coordinator.ask("jobs", "show", "greeting", "--json"))
                .contains("io.rosterd.spring.boot.app.GreetingJob\"");
    }

    @Test
    void listenersOfTheApplicationAreCalled() {
        Wait.until("after greeting", () -> AppListener.CALLS.contains("after greeting"));
        assertThat(AppListener.CALLS.get(0)).isEqualTo("before greeting");
    }

    @Test
    void aJobWithoutAClassRunsWhenItIsAskedFor() {
        Path out = folder.resolve("out");
        context.getBean("scriptBootstrap", OneOffJobBootstrap.class).execute();
        Wait.until("the script has run", () -> Files.exists(out) && Files.size(out) > 0);
        assertThat(out).content().contains("\"jobName\":\"script\"");
    }

    @Test
    void annotatedJobsAreFound() {
        ScannedJob job = context.getBean(ScannedJob.class);
        Wait.until("it has run", () -> job.seen.contains("here"));
        assertThat(context.getBean("scanned")).isInstanceOf(ScheduleJobBootstrap.class);
    }

    @Test
    void healthSaysWhetherACoordinatorIsThere() {
        Coordinator other = Coordinator.onDisk();
        // A worker cannot say goodbye to a coordinator that was killed.
        try (ConfigurableApplicationContext application = run(other, "--rosterd.leave-timeout=1ms")) {
            HealthIndicator health = application.getBean("rosterdHealthIndicator", HealthIndicator.class);
            // Without an instance it is up as well, as long as it has not started.
            Wait.until("up with an instance", () -> {
                Health now = health.health();
                return now.getStatus().equals(Status.UP) && now.getDetails().containsKey("instance");
            });
            other.close();
            Wait.until("down", () -> health.health().getStatus().equals(Status.DOWN));
        }
    }

    @Test
    void theEndOfTheApplicationWaitsForItsRuns() throws Exception {
        try (Coordinator other = Coordinator.onDisk()) {
            ConfigurableApplicationContext application = run(other);
            SlowJob job = application.getBean(SlowJob.class);
            Greeter greeter = application.getBean(Greeter.class);
            application.getBean("slowBootstrap", OneOffJobBootstrap.class).execute();
            job.begun.await();
            CompletableFuture<Void> closed = CompletableFuture.runAsync(application::close);
            RosterdRegistryCenter center = application.getBean(RosterdRegistryCenter.class);
            Wait.until("it leaves", () -> !center.isReady());
            assertThat(closed).isNotDone();
            job.gate.countDown();
            closed.get();
            assertThat(job.ended).isTrue();
            assertThat(greeter.greeted()).contains("slow");
            Wait.until(
                    "its end is recorded",
                    () -> other.ask("runs", "--job", "slow", "--json").contains("succeeded"));
        }
    }
}
