package com.example.reports;

import static org.assertj.core.api.Assertions.assertThat;

import io.rosterd.harness.Coordinator;
import io.rosterd.harness.Wait;
import io.rosterd.harness.ZooKeeperServer;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.util.ClassUtils;

/** The application does the same with either starter on the class path. */
class ApplicationTest {
    private static final boolean ON_ROSTERD = ClassUtils.isPresent("io.rosterd.elasticjob.RosterdRegistryCenter", null);

    @Test
    void bothJobsRunAndTheListenerIsCalled() {
        if (ON_ROSTERD) {
            try (Coordinator coordinator = Coordinator.onDisk()) {
                check("--COORDINATOR=" + coordinator.server());
            }
        } else {
            try (ZooKeeperServer zookeeper = new ZooKeeperServer()) {
                check("--ZOOKEEPER=" + zookeeper.servers());
            }
        }
    }

    private static void check(String address) {
        try (ConfigurableApplicationContext application =
                SpringApplication.run(Application.class, address, "--spring.main.banner-mode=off")) {
            check(application.getBean(Ledger.class));
        }
    }

    private static void check(Ledger ledger) {
        Wait.until(
                "an audited report and six orders",
                () -> AuditListener.lines().size() >= 2
                        && ledger.entries().stream()
                                        .filter(entry -> entry.startsWith("part"))
                                        .count()
                                >= 6);
        String items = "sales {0=Beijing, 1=Shanghai, 2=Guangzhou}";
        assertThat(AuditListener.lines()).startsWith("begin " + items, "end " + items);
        assertThat(ledger.entries())
                .contains(
                        "daily report of Beijing (0 of 3)",
                        "daily report of Shanghai (1 of 3)",
                        "daily report of Guangzhou (2 of 3)");
        for (int part = 0; part < 2; part++) {
            String prefix = "part " + part + ": ";
            List<String> orders = ledger.entries().stream()
                    .filter(entry -> entry.startsWith(prefix))
                    .map(entry -> entry.substring(prefix.length()))
                    .toList();
            assertThat(orders).containsExactly("[order 1]", "[order 2]", "[order 3]");
        }
    }
}
