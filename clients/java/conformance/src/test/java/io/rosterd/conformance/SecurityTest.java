package io.rosterd.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rosterd.client.JobConfig;
import io.rosterd.client.JobOptions;
import io.rosterd.client.RejectedException;
import io.rosterd.client.Worker;
import io.rosterd.client.WorkerBuilder;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** TLS, certificates of one's own and credentials against the real coordinator. */
class SecurityTest {
    private static final JobOptions BROUGHT =
            JobOptions.builder().config(JobConfig.builder().items(1).build()).build();

    @TempDir
    static Path folder;

    private static String secret;

    private static String file(String name) {
        return folder.resolve(name).toString();
    }

    private static String run(String... command) throws Exception {
        Process process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), String.join(" ", command));
        return output;
    }

    @BeforeAll
    static void makeCertificates() throws Exception {
        for (String name : List.of("ca", "other")) {
            run(
                    "openssl",
                    "req",
                    "-x509",
                    "-newkey",
                    "rsa:2048",
                    "-nodes",
                    "-days",
                    "2",
                    "-subj",
                    "/CN=" + name,
                    "-keyout",
                    file(name + ".key"),
                    "-out",
                    file(name + ".pem"));
        }
        certificate("server", "subjectAltName=DNS:localhost,IP:127.0.0.1");
        certificate("client", "subjectAltName=DNS:worker.example");
        secret = addCredential("tests");
        addCredential("--certificate", "dns:worker.example", "certified");
    }

    private static void certificate(String name, String subject) throws Exception {
        run(
                "openssl",
                "req",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-keyout",
                file(name + ".key"),
                "-out",
                file(name + ".csr"),
                "-subj",
                "/CN=" + name,
                "-addext",
                subject);
        run(
                "openssl",
                "x509",
                "-req",
                "-in",
                file(name + ".csr"),
                "-CA",
                file("ca.pem"),
                "-CAkey",
                file("ca.key"),
                "-CAcreateserial",
                "-copy_extensions",
                "copy",
                "-days",
                "2",
                "-out",
                file(name + ".pem"));
    }

    private static String addCredential(String... more) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                RealCoordinator.BINARY.toString(),
                "credentials",
                "add",
                "--role",
                "worker",
                "--file",
                file("credentials.toml")));
        command.addAll(List.of(more));
        List<String> lines = run(command.toArray(String[]::new)).strip().lines().toList();
        return lines.get(lines.size() - 1);
    }

    private static RealCoordinator serve(String... more) throws Exception {
        List<String> flags = new ArrayList<>(List.of(
                "--tls-cert",
                file("server.pem"),
                "--tls-key",
                file("server.key"),
                "--credentials",
                file("credentials.toml")));
        flags.addAll(List.of(more));
        return new RealCoordinator(flags.toArray(String[]::new));
    }

    private static WorkerBuilder builder(RealCoordinator coordinator) {
        return Worker.builder()
                .server("https://" + coordinator.address())
                .address("10.0.0.1")
                .handlesSignals(false)
                .leaveTimeout(Duration.ofSeconds(5));
    }

    private static void assertWorks(WorkerBuilder builder) throws Exception {
        try (Worker worker = builder.build()) {
            worker.job("secured", run -> null, BROUGHT).start();
            RealCoordinator.until("the worker is attached", worker::isReady);
        }
    }

    private static void assertRejected(String message, WorkerBuilder builder) {
        Worker worker = builder.build().job("secured", run -> null, BROUGHT);
        RejectedException rejected = assertThrows(RejectedException.class, worker::run);
        assertTrue(Pattern.compile(message).matcher(rejected.getMessage()).find(), rejected.getMessage());
        assertFalse(rejected.getMessage().contains(secret));
    }

    private static byte[] pem(String name) throws IOException {
        return Files.readAllBytes(folder.resolve(name));
    }

    @Test
    void aSecretOverTls() throws Exception {
        try (RealCoordinator coordinator = serve()) {
            assertWorks(builder(coordinator)
                    .rootCertificates(folder.resolve("ca.pem"))
                    .credential(secret));
            assertRejected(
                    "ROSTERD_CA",
                    builder(coordinator).rootCertificates(pem("other.pem")).credential(secret));
            assertRejected("ROSTERD_CA", builder(coordinator).credential(secret));
            assertRejected("credential", builder(coordinator).rootCertificates(pem("ca.pem")));
            assertRejected(
                    "credential",
                    builder(coordinator)
                            .rootCertificates(pem("ca.pem"))
                            .credential(secret.substring(0, secret.length() - 4) + "AAAA"));
        }
    }

    @Test
    void aCertificateOfTheWorkersOwn() throws Exception {
        try (RealCoordinator coordinator = serve("--tls-client-ca", file("ca.pem"))) {
            assertWorks(builder(coordinator)
                    .rootCertificates(pem("ca.pem"))
                    .clientCertificate(pem("client.pem"), pem("client.key")));
        }
    }

    @Test
    void aCoordinatorThatDoesNotSpeakTlsIsNamedAsSuch() throws Exception {
        try (RealCoordinator coordinator = new RealCoordinator()) {
            assertRejected("does not speak TLS: use http:", builder(coordinator));
        }
    }
}
