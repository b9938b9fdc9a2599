package io.rosterd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rosterd.client.internal.machine.Address;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class OptionsTest {
    private static Options of(WorkerBuilder builder, Map<String, String> environment) {
        return Options.of(builder.environment(environment));
    }

    @Test
    void whatIsNotSetComesFromTheEnvironment() {
        Options options = of(
                Worker.builder(),
                Map.of(
                        "ROSTERD_SERVER",
                        "one:1, two:2",
                        "ROSTERD_CREDENTIAL",
                        "c",
                        "ROSTERD_INSECURE_CREDENTIAL",
                        "true"));
        assertEquals(List.of("one:1", "two:2"), options.settings().servers());
        assertEquals("c", options.access().credential());
        Options set = of(Worker.builder().server("three:3"), Map.of("ROSTERD_SERVER", "one:1"));
        assertEquals(List.of("three:3"), set.settings().servers());
        assertEquals(
                List.of("localhost:7700"),
                of(Worker.builder(), Map.of()).settings().servers());
    }

    @Test
    void allDefectsAreReportedAtOnce() {
        WorkerBuilder wrong = Worker.builder()
                .server("ftp://host")
                .server("host:99999")
                .slots(0)
                .drainTimeout(Duration.ofSeconds(-1))
                .credential("has blanks")
                .rootCertificates(Path.of("/nowhere/ca.pem"))
                .label("x".repeat(129), "y");
        String message = assertThrows(InvalidOptionException.class, () -> of(wrong, Map.of()))
                .getMessage();
        for (String part : List.of(
                "ftp://host",
                "99999",
                "slots must be 1 to 4096",
                "drainTimeout",
                "credential",
                "/nowhere/ca.pem",
                "labels")) {
            assertTrue(message.contains(part), part + " in: " + message);
        }
        assertFalse(message.contains("has blanks"), "a secret is not shown");
    }

    @Test
    void aCredentialGoesInPlainTextToThisMachineOnly() {
        for (String local : List.of("localhost:1", "127.0.0.1:1", "http://127.1:1", "[::1]:1", "https://far:1")) {
            assertEquals(
                    "c",
                    of(Worker.builder().server(local).credential("c"), Map.of())
                            .access()
                            .credential());
        }
        for (String far : List.of("far:1", "http://10.0.0.1:1", "[2001:db8::1]:1", "localhost.example:1")) {
            WorkerBuilder builder = Worker.builder().server(far).credential("c");
            assertThrows(InvalidOptionException.class, () -> of(builder, Map.of()), far);
            of(builder.insecureCredential(true), Map.of());
        }
    }

    @Test
    void addressesHaveThePortOfTheirScheme() {
        assertEquals(443, new Address("https://far").port());
        assertEquals(80, new Address("far").port());
        assertEquals("2001:db8::1", new Address("https://[2001:db8::1]:7700").host());
    }

    @Test
    void aConfigBecomesAJobFile() {
        JobConfig config = JobConfig.builder()
                .items(2)
                .cron("0/5 * * * * ?")
                .itemParameters("a \"b\"", "c")
                .strategy("STICKY")
                .failover(true)
                .props(Map.of("k", "v"))
                .timeout(Duration.ofSeconds(3))
                .retries(new JobConfig.Retries(3))
                .guarantee(new JobConfig.Guarantee(true, false, null, JobConfig.OnTimeout.SKIP))
                .build();
        assertEquals(
                "{\"jobName\":\"j\",\"shardingTotalCount\":2,\"shardingItemParameters\":\"0=a \\\"b\\\",1=c\","
                        + "\"cron\":\"0/5 * * * * ?\",\"failover\":true,\"props\":{\"k\":\"v\"},\"overwrite\":true,"
                        + "\"rosterd\":{\"strategy\":\"STICKY\",\"run_timeout_ms\":3000,\"retries\":{\"max_attempts\":3},"
                        + "\"guarantee\":{\"started\":true,\"completed\":false,\"on_timeout\":\"skip\"}}}",
                config.text("j", true));
        JobConfig wrong = JobConfig.builder().items(1).itemParameters("a", "b").build();
        assertThrows(InvalidOptionException.class, () -> wrong.text("j", false));
    }
}
