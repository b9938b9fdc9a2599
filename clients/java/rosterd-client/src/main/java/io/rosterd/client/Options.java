package io.rosterd.client;

import io.rosterd.client.internal.machine.Address;
import io.rosterd.client.internal.machine.Settings;
import io.rosterd.client.internal.machine.Times;
import io.rosterd.client.internal.transport.Access;
import io.rosterd.client.internal.transport.Pem;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** The validated options of a worker. The only file that reads the environment. */
record Options(
        Settings settings,
        Access access,
        WorkerListener listener,
        InetSocketAddress health,
        boolean handlesSignals,
        boolean virtualThreads,
        Executor executor) {
    private static final String DEFAULT_SERVER = "localhost:7700";
    private static final int MAX_SLOTS = 4096;
    private static final int MAX_LABELS = 32;
    private static final int MAX_LABEL = 128;

    static Options of(WorkerBuilder given) {
        Map<String, String> environment = given.environment;
        Access access = new Access(
                given.credential == null ? environment.getOrDefault("ROSTERD_CREDENTIAL", "") : given.credential,
                given.insecureCredential == null
                        ? environment
                                .getOrDefault("ROSTERD_INSECURE_CREDENTIAL", "")
                                .equals("true")
                        : given.insecureCredential,
                given.rootCertificates.or(file(environment, "ROSTERD_CA")),
                given.clientCertificate.or(file(environment, "ROSTERD_CERT")),
                given.clientKey.or(file(environment, "ROSTERD_KEY")));
        Settings settings = new Settings(
                servers(given),
                given.namespace,
                given.address,
                Map.copyOf(given.labels),
                given.slots,
                Times.nanos(given.drainTimeout),
                Times.nanos(given.leaveTimeout),
                Times.nanos(given.connectTimeout),
                Times.nanos(given.longestDelay),
                !access.credential().isEmpty(),
                access.rootCertificates().isPresent());
        List<String> defects = new ArrayList<>();
        checkServers(settings, access, defects::add);
        checkAccess(access, defects::add);
        checkSettings(given, defects::add);
        if (!defects.isEmpty()) throw new InvalidOptionException(String.join("; ", defects));
        return new Options(
                settings,
                access,
                given.listener,
                given.health,
                given.handlesSignals,
                given.virtualThreads,
                given.executor);
    }

    private static List<String> servers(WorkerBuilder given) {
        List<String> servers = listed(String.join(",", given.servers));
        if (servers.isEmpty()) servers = listed(given.environment.getOrDefault("ROSTERD_SERVER", ""));
        return servers.isEmpty() ? List.of(DEFAULT_SERVER) : servers;
    }

    private static List<String> listed(String text) {
        return Arrays.stream(text.split(",", -1))
                .map(String::strip)
                .filter(part -> !part.isEmpty())
                .toList();
    }

    private static Pem file(Map<String, String> environment, String variable) {
        String path = environment.getOrDefault(variable, "");
        return path.isEmpty() ? Pem.NONE : Pem.of(Path.of(path));
    }

    // ---- defects

    private static void checkServers(Settings settings, Access access, Consumer<String> defect) {
        for (String server : settings.servers()) {
            try {
                new Address(server);
                if (access.exposes(server)) defect.accept(Access.exposed(server));
            } catch (IllegalArgumentException invalid) {
                defect.accept(invalid.getMessage());
            }
        }
    }

    private static void checkAccess(Access access, Consumer<String> defect) {
        if (!access.credential().chars().allMatch(sign -> sign > 0x20 && sign < 0x7f)) {
            defect.accept("credential: it has characters that no credential has, such as blanks or line ends: give the"
                    + " secret alone");
        }
        if (access.clientCertificate().isPresent() != access.clientKey().isPresent()) {
            defect.accept("clientCertificate: a certificate and its key go together (ROSTERD_CERT, ROSTERD_KEY): give"
                    + " both or none");
        }
        for (Pem pem : List.of(access.rootCertificates(), access.clientCertificate(), access.clientKey())) {
            if (!pem.isPresent()) continue;
            try (InputStream text = pem.read()) {
                if (text.read() < 0) defect.accept(pem + " is empty: name a PEM file");
            } catch (IOException error) {
                defect.accept(pem + " cannot be read: " + error + ": name a PEM file");
            }
        }
    }

    private static void checkSettings(WorkerBuilder given, Consumer<String> defect) {
        if (given.slots < 1 || given.slots > MAX_SLOTS) {
            defect.accept("slots must be 1 to " + MAX_SLOTS + ", not " + given.slots);
        }
        if (given.labels.size() > MAX_LABELS) {
            defect.accept("labels: at most " + MAX_LABELS + ", not " + given.labels.size() + ": leave some out");
        }
        given.labels.forEach((name, value) -> {
            for (String text : List.of(name, value)) {
                if (text.getBytes(StandardCharsets.UTF_8).length > MAX_LABEL) {
                    defect.accept("labels: at most " + MAX_LABEL + " bytes each, '" + text + "' has more: shorten it");
                }
            }
        });
        Map<String, Duration> times = Map.of(
                "drainTimeout", given.drainTimeout,
                "leaveTimeout", given.leaveTimeout,
                "connectTimeout", given.connectTimeout,
                "longestDelay", given.longestDelay);
        times.forEach((name, time) -> {
            if (time.isNegative()) defect.accept(name + " must not be negative, not " + time);
        });
    }
}
